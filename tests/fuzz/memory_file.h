// An in-memory file, for readers that need a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "tests/fuzz/input.h"

namespace topk::testing {

/// A file without a name. Its contents can be replaced.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0, "there is a file in memory");
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

  void Write(std::string_view content) {
    Require(ftruncate(descriptor_, 0) == 0 &&
                pwrite(descriptor_, content.data(), content.size(), 0) ==
                    static_cast<ssize_t>(content.size()),
            "the file is written");
  }

 private:
  const int descriptor_;
};

}  // namespace topk::testing
