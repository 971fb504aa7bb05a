#include "core/common/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

// Reads the file to its end, or to one byte past the limit. Returns 0 or errno.
int ReadAll(int fd, std::string& content) {
  content.resize(kMaxBytes + 1);
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = read(fd, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  content.resize(size);
  return 0;
}

}  // namespace

Result<std::string> ReadSmallFile(const NamedFile& file) {
  const auto error = [&](const std::string& why) {
    return Status{
        Code::kNotFound, "FILE", file.flag,
        StrCat(file.flag, ": cannot read ",
               EscapeControls(file.path.substr(0, PATH_MAX)), ": ", why)};
  };
  // O_NONBLOCK: do not wait for a writer if the path is a pipe.
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return error(ErrnoText(errno));
  struct stat info {};
  std::string content;
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const int failure = regular ? ReadAll(fd, content) : 0;
  close(fd);
  if (!regular) return error("not a regular file");
  if (failure != 0) return error(ErrnoText(failure));
  if (content.size() > kMaxBytes) return error("larger than 1 MiB");
  return content;
}

}  // namespace topk
