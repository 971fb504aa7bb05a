// The cost of a request, derived from its plan before any work is done.
#pragma once

#include "core/base/checked.h"
#include "core/plan/plan.h"

namespace topk {

/// The cost of one request. Every figure is an upper bound that grows with each
/// size of the request and saturates instead of overflowing.
struct Cost {
  /// The tensor's data, without the padding that may follow it.
  Size input_bytes;
  /// Values and indices together, as far as the request wants them.
  Size output_bytes;
  /// Memory beyond input and output: candidates, sort buffers, a tensor that
  /// is concatenated from pieces.
  Size working_bytes;
  /// CPU time of all threads together, including zero fill, unpacking, elements
  /// that a stride of 0 repeats and the fixed price of each slice. It is 1 to
  /// kCostFactor times the time that a run takes on a quiet machine, or exceeds
  /// that by at most kCostFloor; types of 8 bits and less may end earlier.
  Size nanoseconds;
};

/// The accuracy of Cost::nanoseconds, which unit/cost_property_test.cc
/// enforces.
inline constexpr int64_t kCostFactor = 64;
inline constexpr int64_t kCostFloor = 50'000;

/// Computations of at most this cost run on the calling thread alone, so that
/// threads that must not wait for others may call them. A cost is a bound that
/// most runs stay far below: these take some ten microseconds.
inline constexpr int64_t kSerialNanoseconds = 150'000;

/// CPU time to zero `bytes` bytes of new memory, page faults included.
Size ZeroFillNanoseconds(Size bytes);

/// CPU time to copy `bytes` bytes into new memory.
Size CopyNanoseconds(Size bytes);

/// Returns the part of the cost that does not depend on the backend: input and
/// output bytes, the zero fill of the outputs, and the price of any request.
Cost CostOfOutputs(const Plan& plan);

}  // namespace topk
