#include "server/transport/owned_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace topk {

OwnedFile::~OwnedFile() {
  if (fd_ < 0) return;
  struct stat own {};
  struct stat found {};
  // Best effort: a successor may put its file here between these calls.
  if (fstat(fd_, &own) == 0 && lstat(path_.c_str(), &found) == 0 &&
      own.st_dev == found.st_dev && own.st_ino == found.st_ino) {
    unlink(path_.c_str());
  }
  close(fd_);
}

}  // namespace topk
