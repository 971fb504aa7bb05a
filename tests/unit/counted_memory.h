// The memory that this program allocates by operator new.
#pragma once

#include <atomic>
#include <cstdint>

namespace topk::testing {

/// The number of allocations so far.
extern std::atomic<int64_t> allocations;

/// The bytes that are allocated now, and the most since ResetPeak().
extern std::atomic<int64_t> live_bytes;
extern std::atomic<int64_t> peak_bytes;
inline void ResetPeak() { peak_bytes = live_bytes.load(); }

}  // namespace topk::testing
