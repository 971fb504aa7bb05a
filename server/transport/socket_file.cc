#include "server/transport/socket_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <vector>

namespace topk {
namespace {

// All that exist, for unlink().
std::mutex files_mutex;
std::vector<const OwnedFile*>& Files() {
  // Never destroyed: static destructors may unlink files too.
  static auto& files = *new std::vector<const OwnedFile*>;
  return files;
}

// Returns whether another server has taken over the path of one of our sockets.
bool IsTakenOver(std::string_view path) {
  const std::lock_guard lock(files_mutex);
  bool taken = false;
  for (const OwnedFile* file : Files()) {
    if (file->path() != path) continue;
    if (file->IsInPlace()) return false;
    taken = true;
  }
  return taken;
}

}  // namespace

SocketFile::SocketFile(const std::string& path)
    : file_(path, open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {
  const std::lock_guard lock(files_mutex);
  Files().push_back(&file_);
}

SocketFile::~SocketFile() {
  const std::lock_guard lock(files_mutex);
  std::erase(Files(), &file_);
}

}  // namespace topk

/// gRPC's, in place of the C library's.
extern "C" int unlink(const char* path) noexcept {
  if (topk::IsTakenOver(path)) {
    errno = ENOENT;
    return -1;
  }
  return unlinkat(AT_FDCWD, path, 0);
}
