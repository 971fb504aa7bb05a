// POSIX shared memory for tensors and results, for a client and a server on the
// same machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A POSIX shared memory object owned by this process. The destructor unmaps
/// and unlinks it. A server that allows shared memory can read a tensor from
/// the object or write a result to it, but only if the server runs as the same
/// user or as root.
///
/// Do not modify a tensor while a request that uses it is in flight. Otherwise,
/// the result is unspecified.
class SharedMemory {
 public:
  /// Creates a zeroed object of `bytes` bytes and allocates its memory. Only
  /// this user may open the object. If `name` is empty, generates a unique name
  /// that begins with "/topk", the servers' default prefix. A valid name begins
  /// with a slash and has no other slash. Returns INVALID_ARGUMENT if the name
  /// is invalid or exists, and RESOURCE_EXHAUSTED if there is not enough shared
  /// memory.
  static Result<SharedMemory> Create(const std::string& name, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// The object's memory.
  std::span<std::byte> data() const { return data_; }
  /// The name, including the slash; "" after a move.
  const std::string& name() const { return name_; }

  /// Returns a reference to a part of the memory, for use in a request.
  /// REQUIRES: offset + bytes <= data().size().
  v1::SharedMemoryRegion Region(size_t offset, size_t bytes) const;

 private:
  explicit SharedMemory(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::span<std::byte> data_;
};

}  // namespace topk
