#include "server/ready_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/text.h"

namespace topk {
namespace {

Status CannotWrite(const std::string& path, const std::string& reason) {
  return {Code::kUnavailable, "READY_FILE", "ready_file",
          StrCat("--ready-file: cannot write ", path, ": ", reason)};
}

}  // namespace

Result<OwnedFile> WriteReadyFile(
    const std::string& path, const std::vector<std::string>& listen,
    const std::map<std::string, std::string>& others) {
  nlohmann::json addresses = others;
  addresses["listen"] = listen;
  const std::string content = addresses.dump() + "\n";
  const std::string temporary = StrCat(path, ".", getpid());
  // In containers, process IDs repeat, so this file may exist already.
  std::remove(temporary.c_str());
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) {
    (void)flock(fd, LOCK_EX | LOCK_NB);  // not supported by all file systems
    errno = ENOSPC;                      // a short write does not set errno
    if (write(fd, content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()) &&
        std::rename(temporary.c_str(), path.c_str()) == 0) {
      return OwnedFile(path, fd);
    }
  }
  const std::string error = ErrnoText(errno);
  const OwnedFile unfinished(temporary, fd);  // removes the file
  return CannotWrite(path, error);
}

Status RemoveStaleReadyFile(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return CannotWrite(path, "it exists and is not a regular file");
  }
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return {};
  const bool is_locked =
      flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_locked) unlink(path.c_str());
  close(fd);
  return {};
}

}  // namespace topk
