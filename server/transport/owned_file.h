// Files that this process created and removes at its end.
#pragma once

#include <string>
#include <utility>

namespace topk {

/// A file that this process created. The destructor removes the file, unless
/// another one has taken its place.
class OwnedFile {
 public:
  /// Takes ownership of a descriptor of the file at `path`. The descriptor
  /// keeps the file's inode from being reused. If `fd` is negative, the object
  /// owns nothing.
  OwnedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~OwnedFile();
  OwnedFile(OwnedFile&& other) noexcept
      : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}
  OwnedFile& operator=(OwnedFile&&) = delete;

 private:
  const std::string path_;
  int fd_;
};

}  // namespace topk
