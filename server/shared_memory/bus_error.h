// Turns SIGBUS in shared memory into an error of the request that uses it.
//
// Algorithm: if a shared object is truncated, pages that other processes have
// mapped disappear, and accessing them raises SIGBUS. The signal handler finds
// the registered range with the faulting address, maps zero pages from there to
// the end of the range, and marks the range as broken. The faulting instruction
// then succeeds, and the user of the range checks the mark afterwards.
//
// Why: checking the size first is not enough, because the object may be
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
  /// More than one client can use: by default a client may have 2048 calls in
  /// flight, and each maps up to three objects.
  static constexpr size_t kMax = 8192;

  /// Guards a mapping that begins at a page boundary. `writable` is true if it
  /// was mapped for writing.
  BusGuard(std::span<const std::byte> memory, bool writable);
  ~BusGuard();
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;

  /// Returns whether this range is guarded, or false if kMax others already
  /// were.
  bool guards() const { return slot_ < kMax; }

  /// Returns whether an access found a missing page. From that page on, the
  /// range reads as zeros and writes are lost.
  bool broken() const;

 private:
  size_t slot_;
};

}  // namespace topk
