#include "client/numpy/npz.h"

#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/numpy/file_bytes.h"
#include "client/numpy/text.h"
#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk {
namespace {

// np.savez and np.savez_compressed append this suffix to names.
constexpr std::string_view kSuffix = ".npy";
// The maximum number of names that an error lists.
constexpr size_t kListed = 20;

using Archive = std::unique_ptr<zip_t, FreeWith<zip_discard>>;

Status Broken(std::string_view what) {
  return InvalidArgument("NPZ_FORMAT", "file",
                         StrCat("not a .npz file: ", what));
}

Result<Archive> Open(std::span<const std::byte> file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source =
      zip_source_buffer_create(file.data(), file.size(), 0, &error);
  Archive archive(source == nullptr
                      ? nullptr
                      : zip_open_from_source(source, ZIP_RDONLY, &error));
  if (archive == nullptr) {
    if (source != nullptr) zip_source_free(source);
    Status status = Broken(zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
  }
  zip_error_fini(&error);
  return archive;
}

// Returns the names of the members in the archive.
std::vector<std::string> Names(zip_t* archive) {
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name =
        zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

Result<size_t> Find(const std::vector<std::string>& names,
                    const std::string& member) {
  if (names.empty()) return Broken("it has no arrays");
  // Like NumPy, prefers an exact name to a name with ".npy" appended, and reads
  // the last array of a repeated name.
  const bool one_name =
      std::ranges::count(names, names[0]) == std::ssize(names);
  for (const std::string& name :
       {member.empty() && one_name ? names[0] : member,
        StrCat(member, kSuffix)}) {
    const auto found = std::find(names.rbegin(), names.rend(), name);
    if (found != names.rend() && (one_name || !member.empty())) {
      return static_cast<size_t>(names.rend() - found) - 1;
    }
  }
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i) {
    std::string_view name = names[i];
    if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
    list += StrCat(i > 0 ? ", " : "", Quote(name));
  }
  if (names.size() > kListed)
    list += StrCat(" and ", names.size() - kListed, " more");
  return InvalidArgument(
      "NPZ_MEMBER", "file",
      member.empty()
          ? StrCat("it has several arrays, name one with --member: ", list)
          : StrCat("it has no array ", Quote(member), ", only ", list));
}

// Appends decompressed bytes to `content` until `content` has `size` bytes or
// the member ends.
Status Inflate(zip_file_t* member, size_t size,
               std::vector<std::byte>& content) {
  // Allocate memory as data arrives, because the size in a header may be wrong.
  constexpr size_t kStep = size_t{1} << 20;
  size_t filled = content.size();
  while (filled < size) {
    if (filled == content.size()) {
      content.resize(std::min(size, std::max(2 * filled, kStep)));
    }
    const zip_int64_t got =
        zip_fread(member, content.data() + filled, content.size() - filled);
    if (got < 0) return Broken(zip_file_strerror(member));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return {};
}

// Decompresses a member, up to the size that its .npy header implies. libzip
// checks the CRC at the end.
Result<std::vector<std::byte>> Unpack(zip_t* archive, size_t index,
                                      std::optional<DType> as) {
  const std::unique_ptr<zip_file_t, FreeWith<zip_fclose>> member(
      zip_fopen_index(archive, index, 0));
  if (member == nullptr) return Broken(zip_strerror(archive));
  std::vector<std::byte> content;
  if (Status s = Inflate(member.get(), kMaxNpyStart, content); !s.ok()) {
    return s;
  }
  const Result<size_t> size = NpyFileSize(content, as);
  if (!size.ok()) return size.status();
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) == 0 &&
      (stat.valid & ZIP_STAT_SIZE) != 0 && stat.size != *size) {
    return MalformedNpy(StrCat("its size in the archive is ", stat.size,
                               " bytes; its shape and type imply ", *size));
  }
  // Read one byte more than expected, to reach the member's end or to detect
  // that the member is too long.
  if (Status s = Inflate(member.get(), *size + 1, content); !s.ok()) return s;
  if (content.size() > *size) {
    return MalformedNpy(StrCat("it has more than the ", *size,
                               " bytes that its shape and type imply"));
  }
  return content;
}

}  // namespace

Result<NpyArray> ReadArray(const std::string& path,
                           const ReadOptions& options) {
  Result<FileBytes> file = ReadFileBytes(path);
  if (!file.ok()) return file.status();
  const FileFormat format = FormatOf(file->data);
  if (format == FileFormat::kUnknown) {
    return InvalidArgument("FORMAT", "file",
                           "not a .npy file, a .npz archive or text");
  }
  const bool is_text = format == FileFormat::kText;
  const std::string_view wrong_flag =
      !options.member.empty() && format != FileFormat::kNpz ? "--member"
      : options.dtype && is_text                            ? "--dtype"
      : options.has_header && !is_text                      ? "--header"
                                                            : "";
  if (!wrong_flag.empty()) {
    return InvalidArgument(
        "FLAG", "file",
        StrCat(wrong_flag, " does not apply to ",
               is_text                      ? "text"
               : format == FileFormat::kNpy ? "a .npy file"
                                            : "a .npz archive"));
  }
  if (is_text) return ParseText(file->data, options.has_header);
  if (format == FileFormat::kNpy) {
    return ParseNpy(file->data, file->owner, options.dtype);
  }
  const Result<Archive> archive = Open(file->data);
  if (!archive.ok()) return archive.status();
  const Result<size_t> index = Find(Names(archive->get()), options.member);
  if (!index.ok()) return index.status();
  Result<std::vector<std::byte>> content =
      Unpack(archive->get(), *index, options.dtype);
  if (!content.ok()) return content.status();
  const auto owner =
      std::make_shared<std::vector<std::byte>>(*std::move(content));
  return ParseNpy(*owner, owner, options.dtype);
}

Status WriteNpz(const std::string& path, std::span<const NpyMember> members) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  bool ok = archive != nullptr;
  for (const NpyMember& member : members) {
    if (!ok) break;
    zip_source_t* source = zip_source_buffer(archive, member.content.data(),
                                             member.content.size(), 0);
    const zip_int64_t index =
        zip_file_add(archive, StrCat(member.name, kSuffix).c_str(), source, 0);
    ok = index >= 0 &&
         zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                                  ZIP_CM_STORE, 0) == 0;
    if (index < 0) zip_source_free(source);
  }
  if (ok && zip_close(archive) == 0) return {};
  const std::string why =
      archive == nullptr ? ErrnoText(errno) : zip_strerror(archive);
  if (archive != nullptr) zip_discard(archive);
  return {Code::kNotFound, "FILE", "out",
          StrCat("cannot write ", path, ": ", why)};
}

}  // namespace topk
