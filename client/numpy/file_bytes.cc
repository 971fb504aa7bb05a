#include "client/numpy/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "client/numpy/text.h"
#include "core/base/text.h"

namespace topk {
namespace {

Status CannotRead() {
  return {Code::kNotFound, "FILE", "file",
          StrCat("cannot be read: ", ErrnoText(errno))};
}

bool CanBeArray(const std::vector<std::byte>& content, size_t size) {
  return size < 2 || IsText({content.data(), size}) ||
         (content[0] == std::byte{0x93} && content[1] == std::byte{'N'}) ||
         (content[0] == std::byte{'P'} && content[1] == std::byte{'K'});
}

// Reads a file that cannot be mapped, e.g. a pipe. Stops early if the content
// is not an array, because the file may be endless, e.g. /dev/zero.
Result<FileBytes> ReadAll(int fd) {
  auto content = std::make_shared<std::vector<std::byte>>();
  size_t size = 0;
  for (;;) {
    content->resize(std::max<size_t>(size * 2, size_t{1} << 16));
    const ssize_t got =
        read(fd, content->data() + size, content->size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead();
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (!CanBeArray(*content, size)) break;
  }
  const std::span<const std::byte> bytes(content->data(), size);
  return FileBytes{bytes, std::move(content)};
}

Result<FileBytes> ReadDescriptor(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return CannotRead();
  // Map a regular file that is read from its start, as in "topk run - <file".
  if (!S_ISREG(info.st_mode) || info.st_size == 0 ||
      lseek(fd, 0, SEEK_CUR) != 0) {
    return ReadAll(fd);
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return CannotRead();
  std::shared_ptr<const void> owner(
      memory, [size](void* mapped) { munmap(mapped, size); });
  return FileBytes{{static_cast<const std::byte*>(memory), size},
                   std::move(owner)};
}

}  // namespace

Result<FileBytes> ReadFileBytes(const std::string& path) {
  if (path == "-") return ReadDescriptor(STDIN_FILENO);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead();
  Result<FileBytes> bytes = ReadDescriptor(fd);
  close(fd);  // does not invalidate a mapping of the file
  return bytes;
}

}  // namespace topk
