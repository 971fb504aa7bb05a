#include "client/numpy/read_tensor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "client/numpy/npy.h"
#include "client/numpy/text.h"
#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A zip archive begins with the header of its first entry, or with the end
// record if it is empty.
bool IsZip(std::string_view file) {
  return file.starts_with("PK\3\4") || file.starts_with("PK\5\6");
}

bool IsNpy(std::string_view file) { return file.starts_with("\x93NUMPY"); }

Result<std::string> ReadFile(const std::string& path) {
  const int fd = path == "-" ? dup(STDIN_FILENO)
                             : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string content;
  ssize_t got = -1;
  if (fd >= 0) {
    struct stat info {};
    fstat(fd, &info);
    content.reserve(static_cast<size_t>(info.st_size));
    std::vector<char> buffer(kMiB);
    while ((got = read(fd, buffer.data(), buffer.size())) > 0) {
      const std::string_view piece(buffer.data(), static_cast<size_t>(got));
      const bool is_first = content.empty();
      content += piece;
      // Text has no zero bytes. Do not read devices such as /dev/zero forever.
      if (is_first && !IsZip(piece) && !IsNpy(piece) &&
          piece.find('\0') != std::string_view::npos) {
        break;
      }
    }
    const int error = errno;
    close(fd);
    errno = error;
  }
  if (got < 0) {
    return Status{Code::kNotFound, "FILE", "file",
                  StrCat("cannot be read: ", ErrnoText(errno))};
  }
  return content;
}

Status Broken(const char* why) {
  return InvalidArgument("NPZ_FORMAT", "file",
                         StrCat("not a .npz file: ", why));
}

// Returns the index of the member in the archive. np.savez appends .npy to the
// names.
Result<zip_uint64_t> Find(zip_t* archive, const std::string& member) {
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  if (member.empty() && count == 1) return zip_uint64_t{0};
  for (const std::string& name : {member, StrCat(member, ".npy")}) {
    const zip_int64_t index = zip_name_locate(archive, name.c_str(), 0);
    if (index >= 0) return static_cast<zip_uint64_t>(index);
  }
  std::string list;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    list += StrCat(i > 0 ? ", " : "", Quote(name == nullptr ? "" : name));
  }
  if (count == 0) {
    return InvalidArgument("NPZ_MEMBER", "file", "it has no arrays");
  }
  return InvalidArgument(
      "NPZ_MEMBER", "file",
      member.empty()
          ? StrCat("name one of its arrays with --member: ", list)
          : StrCat("it has no array ", Quote(member), ", only ", list));
}

Result<v1::Tensor> ReadMember(const std::string& file,
                              const std::string& member) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source =
      zip_source_buffer_create(file.data(), file.size(), 0, &error);
  if (source == nullptr) throw std::bad_alloc();
  const std::unique_ptr<zip_t, FreeWith<zip_discard>> archive(
      zip_open_from_source(source, ZIP_RDONLY, &error));
  if (archive == nullptr) {
    Status status = Broken(zip_error_strerror(&error));
    zip_source_free(source);
    zip_error_fini(&error);
    return status;
  }
  const Result<zip_uint64_t> index = Find(archive.get(), member);
  if (!index.ok()) return index.status();
  const std::unique_ptr<zip_file_t, FreeWith<zip_fclose>> stream(
      zip_fopen_index(archive.get(), *index, 0));
  if (stream == nullptr) return Broken(zip_strerror(archive.get()));
  std::string content;
  std::vector<char> buffer(kMiB);
  zip_int64_t got = 0;
  while ((got = zip_fread(stream.get(), buffer.data(), buffer.size())) > 0) {
    content.append(buffer.data(), static_cast<size_t>(got));
  }
  // libzip checks the CRC at the end.
  if (got < 0) return Broken(zip_file_strerror(stream.get()));
  return ParseNpy(std::move(content));
}

}  // namespace

Result<v1::Tensor> ReadTensor(const std::string& path,
                              const std::string& member, bool has_header) {
  Result<std::string> file = ReadFile(path);
  if (!file.ok()) return file.status();
  if (has_header && (IsZip(*file) || IsNpy(*file))) {
    return InvalidArgument("FLAG", "file", "--header applies only to text");
  }
  if (IsZip(*file)) return ReadMember(*file, member);
  if (!member.empty()) {
    return InvalidArgument("FLAG", "file",
                           "--member applies only to .npz archives");
  }
  if (IsNpy(*file)) return ParseNpy(*std::move(file));
  return ParseText(*file, has_header);
}

}  // namespace topk
