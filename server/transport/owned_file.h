// Files that this process created and removes at its end.
#pragma once

#include <sys/stat.h>

#include <string>

namespace topk {

/// A path and the file that this process created there. On destruction it
/// removes the file, unless another one has taken its place.
class OwnedFile {
 public:
  /// Takes over a descriptor of the file, which keeps the file's inode from
  /// being reused for another one. May be negative: then it owns nothing.
  OwnedFile(std::string path, int fd);
  ~OwnedFile();
  OwnedFile(OwnedFile&& other) noexcept;
  OwnedFile& operator=(OwnedFile&&) = delete;

  /// Returns whether the file is at its path now.
  bool IsInPlace() const;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  int fd_;
};

}  // namespace topk
