#include "client/numpy/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk {
namespace {

// The number of bytes that FormatOf() needs.
constexpr size_t kFormatBytes = 4096;

using Memory = std::unique_ptr<std::byte, FreeWith<std::free>>;

Status CannotRead() {
  return {Code::kNotFound, "FILE", "file",
          StrCat("cannot be read: ", ErrnoText(errno))};
}

Result<FileBytes> ReadDescriptor(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return CannotRead();
  // One byte more than the size, so that the last read() finds the end.
  size_t capacity = std::max<size_t>(
      S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) + 1 : 0,
      size_t{1} << 16);
  Memory memory;
  size_t size = 0;
  for (;; capacity *= 2) {
    void* const larger = std::realloc(memory.get(), capacity);
    if (larger == nullptr) throw std::bad_alloc();
    (void)memory.release();
    memory.reset(static_cast<std::byte*>(larger));
    while (size < capacity) {
      const ssize_t got = read(fd, memory.get() + size, capacity - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return CannotRead();
      size += static_cast<size_t>(got);
      const std::span<const std::byte> bytes(memory.get(), size);
      // Do not read e.g. /dev/zero until the memory is full.
      const bool is_useless =
          size >= kFormatBytes && FormatOf(bytes) == FileFormat::kUnknown;
      if (got > 0 && !is_useless) continue;
      return FileBytes{bytes, std::shared_ptr<const void>(std::move(memory))};
    }
  }
}

}  // namespace

FileFormat FormatOf(std::span<const std::byte> content) {
  const std::string_view text(reinterpret_cast<const char*>(content.data()),
                              std::min(content.size(), kFormatBytes));
  // A zip archive begins with the header of its first entry, or with the end
  // record if it is empty.
  if (text.starts_with("PK\3\4") || text.starts_with("PK\5\6")) {
    return FileFormat::kNpz;
  }
  if (text.starts_with("\x93NUMPY")) return FileFormat::kNpy;
  const bool is_utf16 =
      text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  return is_utf16 || text.find('\0') == std::string_view::npos
             ? FileFormat::kText
             : FileFormat::kUnknown;
}

Result<FileBytes> ReadFileBytes(const std::string& path) {
  if (path == "-") return ReadDescriptor(STDIN_FILENO);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead();
  Result<FileBytes> bytes = ReadDescriptor(fd);
  close(fd);
  return bytes;
}

}  // namespace topk
