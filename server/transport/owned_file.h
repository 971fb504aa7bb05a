// Files that are removed when the process exits.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace topk {

/// A file created by this process. The destructor removes the file unless
/// another file has replaced it.
class OwnedFile {
 public:
  /// Takes ownership of `fd`, an open descriptor of the file at `path`. Keeping
  /// the descriptor open prevents reuse of the file's inode. If `fd` is
  /// negative, the object owns nothing.
  OwnedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~OwnedFile() {
    if (fd_ < 0) return;
    struct stat own {};
    struct stat found {};
    // Best effort: another server may replace the file before unlink().
    if (fstat(fd_, &own) == 0 && lstat(path_.c_str(), &found) == 0 &&
        own.st_dev == found.st_dev && own.st_ino == found.st_ino) {
      unlink(path_.c_str());
    }
    close(fd_);
  }
  OwnedFile(OwnedFile&& other) noexcept
      : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}
  OwnedFile& operator=(OwnedFile&&) = delete;

 private:
  const std::string path_;
  int fd_;
};

}  // namespace topk
