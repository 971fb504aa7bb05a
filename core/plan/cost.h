// The cost of a request, derived from its plan before any work is done.
#pragma once

#include "core/base/checked.h"
#include "core/plan/plan.h"

namespace topk {

/// The cost of one request. Every field is an upper bound (but see
/// `nanoseconds`), and saturates instead of overflowing. On the CPU, no field
/// except `working_bytes` decreases if a dimension or k increases.
struct Cost {
  /// The tensor's data, excluding padding.
  Size input_bytes;
  /// The total size of the requested outputs.
  Size output_bytes;
  /// Memory beyond input and output: candidates, sort buffers, and a tensor
  /// concatenated from chunks.
  Size working_bytes;
  /// Total CPU time of all threads. Includes zeroing memory, unpacking,
  /// repeated elements (stride 0), and the fixed cost per slice. Old processors
  /// may take up to four times as long, kernels without SIMD up to 16 times,
  /// and ascending slices that arrive in many parts ten times. On an idle
  /// machine, the estimate is at most 50 us + 64 * the actual time. The
  /// estimate may be higher for types of up to 8 bits, because their selection
  /// may end early. Checked by unit/cost_property_test.cc.
  Size nanoseconds;
};

/// A computation with at most this cost runs entirely on the calling thread,
/// even if that thread must not block. Because the cost is an upper bound, most
/// such computations take only about ten microseconds.
inline constexpr int64_t kSerialNanoseconds = 150'000;

/// Returns the CPU time for zeroing `bytes` bytes of new memory, including page
/// faults.
inline Size ZeroFillNanoseconds(Size bytes) {
  // A page fault takes 0.7 us, i.e. 0.17 ns per byte, and twice as long on
  // slower machines.
  return Size::Of(static_cast<double>(bytes.value()) * 0.35);
}

/// Returns the CPU time to copy `bytes` bytes into new memory.
inline Size CopyNanoseconds(Size bytes) {
  return ZeroFillNanoseconds(bytes) +
         Size::Of(static_cast<double>(bytes.value()) * 0.15);
}

/// Returns the part of the cost that does not depend on the backend: input and
/// output bytes, the zero fill of the outputs, and the fixed cost of a request.
inline Cost CostOfOutputs(const Plan& plan) {
  constexpr int64_t kEveryRequest = 10'000;  // includes waking threads
  Cost cost;
  cost.input_bytes = plan.input.bytes;
  cost.output_bytes = plan.output_bytes();
  cost.nanoseconds = kEveryRequest + ZeroFillNanoseconds(cost.output_bytes);
  return cost;
}

}  // namespace topk
