#include "server/transport/owned_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace topk {

OwnedFile::OwnedFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

OwnedFile::OwnedFile(OwnedFile&& other) noexcept
    : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}

OwnedFile::~OwnedFile() {
  if (fd_ < 0) return;
  // Between the two calls a successor may put its file here; POSIX has no call
  // that does both at once.
  if (IsInPlace()) unlinkat(AT_FDCWD, path_.c_str(), 0);
  close(fd_);
}

bool OwnedFile::IsInPlace() const {
  struct stat own {};
  struct stat found {};
  return fstat(fd_, &own) == 0 && lstat(path_.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

}  // namespace topk
