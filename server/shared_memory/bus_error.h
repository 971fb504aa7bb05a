// Turns SIGBUS in memory that a client shares into an error of its request.
//
// Algorithm: truncating a shared object removes pages that another process has
// mapped, and accessing them raises SIGBUS. The signal handler searches the
// address in the ranges that are registered here, maps pages of zeros from
// there to the end of the range, and marks the range as broken. The instruction
// then succeeds, and the user of the range checks the mark afterwards.
//
// Why: checking the size before is not enough, because the object may be
// truncated at any moment, and copying the tensor would take longer than most
// computations.
//
// Tests: unit/bus_error_test.cc, integration/shared_memory_misuse_test.cc.
#pragma once

#include <cstddef>
#include <span>

namespace topk {

/// Guards a range of mapped memory against SIGBUS while this object lives. At
/// most kMax ranges are guarded at a time.
class BusGuard {
 public:
  static constexpr size_t kMax = 256;

  /// Guards a mapping, which must begin at a page. `writable`: whether it was
  /// mapped for writing.
  BusGuard(std::span<const std::byte> memory, bool writable);
  ~BusGuard();
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;

  /// Returns false if too many ranges were guarded: this one is not.
  bool guards() const { return slot_ < kMax; }

  /// Returns whether a page of the range was missing when it was accessed. From
  /// that page on, the range now reads as zeros, and writes are lost.
  bool broken() const;

 private:
  size_t slot_;
};

}  // namespace topk
