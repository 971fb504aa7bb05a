// POSIX shared memory for tensors and answers, where client and server are on
// one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A POSIX shared memory object owned by this process: the destructor unmaps
/// and unlinks it. A server that allows shared memory reads a tensor from it,
/// or writes a result to it, if it may open the object: it must run as the same
/// user or as root.
///
/// Do not change a tensor while a request that names it is in flight: the
/// result is unspecified then.
class SharedMemory {
 public:
  /// Creates an object of `bytes` zero bytes, all of them allocated, that only
  /// this user may open. An empty name is replaced by a unique one below
  /// "/topk", the servers' default prefix. INVALID_ARGUMENT if the name exists
  /// already or is not valid (it must be a slash followed by no other slash),
  /// RESOURCE_EXHAUSTED if there is not enough shared memory.
  static Result<SharedMemory> Create(const std::string& name, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// The bytes, to be written and read.
  std::span<std::byte> data() const { return data_; }
  /// The name, with its slash; "" after a move.
  const std::string& name() const { return name_; }

  /// Returns the part of it that a request is to name. REQUIRES: offset + bytes
  /// <= data().size().
  v1::SharedMemoryRegion Region(size_t offset, size_t bytes) const;

 private:
  SharedMemory(std::string name, std::span<std::byte> data);

  std::string name_;
  std::span<std::byte> data_;
};

}  // namespace topk
