// Turns SIGBUS in shared memory into an error of the request that uses it.
//
// If a shared object is truncated, pages that other processes have mapped
// disappear, and accessing them raises SIGBUS. The signal handler finds the
// registered range with the faulting address, maps zero pages from there to the
// end of the range, and marks the range as broken. The faulting instruction
// then succeeds, and the user of the range checks the mark afterwards.
//
// Checking the size first is not enough, because the object may be truncated at
// any moment. Copying the tensor would take longer than most computations.
//
// Tests: unit/shared_objects_test.cc, integration/shared_memory_test.cc.
#pragma once

#include <cstddef>
#include <span>

namespace topk {

/// Guards a range of mapped memory against SIGBUS while this object lives. At
/// most kMax ranges are guarded at a time.
class BusGuard {
 public:
  /// More than a client can use by default: 2048 calls with three objects each.
  static constexpr size_t kMax = 8192;

  /// `memory` must be a page-aligned mapping, with write access if `writable`.
  BusGuard(std::span<const std::byte> memory, bool writable);
  ~BusGuard();
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;

  /// Returns false if kMax other ranges were already guarded at construction.
  bool guards() const { return slot_ < kMax; }

  /// Returns whether an access hit a missing page. From that page to the end of
  /// the range, reads return zeros and writes are lost.
  bool broken() const;

 private:
  size_t slot_;
};

}  // namespace topk
