// Counts the memory that this program allocates with operator new, and in
// core/backends/cpu/scratch.h.
#pragma once

#include <atomic>
#include <cstdint>

namespace topk::testing {

/// The bytes currently allocated, and their maximum since ResetPeak().
extern std::atomic<int64_t> live_bytes;
extern std::atomic<int64_t> peak_bytes;
inline void ResetPeak() { peak_bytes = live_bytes.load(); }

}  // namespace topk::testing
