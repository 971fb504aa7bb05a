// POSIX shared memory for tensors and answers, where client and server are on
// one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// An object that is this process's until the end: it is unmapped and unlinked
/// then. A server that allows shared memory takes a tensor from it, or puts an
/// answer there, if it may open it: a server of the same user, or root's.
///
/// Do not change a tensor while a request that names it is under way: the
/// answer could be anything.
class SharedMemory {
 public:
  /// Makes an object of so many bytes, all of them zero and there for certain,
  /// that its user alone may open. A name that is "" becomes one of its own,
  /// below "/topk", the servers' default prefix. INVALID_ARGUMENT for a name
  /// that is taken or is none (a slash, then no other one),
  /// RESOURCE_EXHAUSTED if there is not so much memory.
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
