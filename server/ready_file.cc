#include "server/ready_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/security/small_file.h"

namespace topk {
namespace {

// Creates a locked file, in the place of no other one. Returns its descriptor,
// or -1 and errno.
int CreateLocked(const std::string& path, const std::string& content) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  const ssize_t written = write(fd, content.data(), content.size());
  if (written == static_cast<ssize_t>(content.size())) {
    // A file system without locks: the file is not protected, but right.
    (void)flock(fd, LOCK_EX | LOCK_NB);
    return fd;
  }
  const int error = written < 0 ? errno : ENOSPC;
  std::remove(path.c_str());
  close(fd);
  errno = error;
  return -1;
}

// Returns why the ready file must not take the place of what is at a path: a
// file of someone else would be lost.
Status CheckReplaceable(const std::string& path) {
  const auto refuse = [&path](const char* why) {
    return Status{Code::kUnavailable, "READY_FILE", "ready_file",
                  StrCat("--ready-file: ", path, " exists and is not ", why,
                         "; remove it or choose another path")};
  };
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISREG(info.st_mode)) return refuse("a regular file");
  const Result<std::string> content = ReadSmallFile({"--ready-file", path});
  if (!content.ok()) return content.status();
  const auto earlier = nlohmann::json::parse(*content, nullptr, false);
  const bool ours =
      content->empty() || (earlier.is_object() && earlier.contains("listen") &&
                           earlier["listen"].is_array());
  return ours ? Status{} : refuse("an earlier ready file");
}

}  // namespace

Result<OwnedFile> WriteReadyFile(
    const std::string& path, const std::vector<std::string>& listen,
    const std::map<std::string, std::string>& others) {
  nlohmann::json content = {{"listen", listen}};
  for (const auto& [name, address] : others) {
    if (!address.empty()) content[name] = address;
  }
  if (Status s = CheckReplaceable(path); !s.ok()) return s;
  // In a container an earlier server may have had the same number.
  const std::string temporary = StrCat(path, ".", getpid());
  if (Status s = CheckReplaceable(temporary); !s.ok()) return s;
  std::remove(temporary.c_str());
  const int fd = CreateLocked(
      temporary,
      content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
  if (fd < 0 || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    if (fd >= 0) {
      std::remove(temporary.c_str());
      close(fd);
    }
    return Status{
        Code::kUnavailable, "READY_FILE", "ready_file",
        StrCat("--ready-file: cannot write ", path, ": ", ErrnoText(error))};
  }
  return OwnedFile(path, fd);
}

Status RemoveStaleReadyFile(const std::string& path) {
  if (Status s = CheckReplaceable(path); !s.ok()) return s;
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return {};
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd);
    return {};
  }
  const OwnedFile stale(path, fd);
  return {};
}

}  // namespace topk
