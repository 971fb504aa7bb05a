// Turns SIGBUS in memory shared by a client into an error of its request.
//
// Algorithm: truncating a shared object removes pages that another process has
// mapped; accessing one of them raises SIGBUS. The handler searches the address
// in the ranges registered here, maps pages of zeros from there to the end of
// the range, and marks the range as broken. The instruction is then repeated,
// and the user of the range checks the mark afterwards.
//
// Why: a check beforehand is not sufficient, because the object may be
// truncated at any moment, and a copy of the tensor would cost more than most
// computations.
//
// Tests: unit/bus_error_test.cc, integration/shared_memory_misuse_test.cc.
#pragma once

#include <cstddef>
#include <span>

namespace topk {

/// A range of mapped memory in which SIGBUS is survived, from its construction
/// to its destruction. At most kMax of them exist at a time.
class BusGuard {
 public:
  static constexpr size_t kMax = 256;

  /// Guards a mapping, from a page's begin on. `writable` as it was mapped.
  BusGuard(std::span<const std::byte> memory, bool writable);
  ~BusGuard();
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;

  /// Whether there was room for it; the range is not guarded otherwise.
  bool guards() const { return slot_ < kMax; }

  /// Whether a page of the range was gone: what is read there since is zero,
  /// and what is written goes nowhere.
  bool broken() const;

 private:
  size_t slot_;
};

}  // namespace topk
