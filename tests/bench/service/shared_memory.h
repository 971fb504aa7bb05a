// A tensor in POSIX shared memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::bench {

/// An object of that name, removed with this.
class SharedMemory {
 public:
  /// Makes the object and copies the data into it. Throws std::runtime_error
  /// if there is one of the name, or no memory.
  SharedMemory(const std::string& name, std::span<const std::byte> data);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// Names the whole of it.
  void Describe(v1::SharedMemoryRegion& region) const;

 private:
  const std::string name_;
  const size_t size_;
};

}  // namespace topk::bench
