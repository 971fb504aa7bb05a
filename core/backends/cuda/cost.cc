#include "core/backends/cuda/cost.h"

#include <algorithm>

#include "core/backends/cuda/parts.h"
#include "core/backends/cuda/tasks.h"

namespace topk::cuda {
namespace {

// One thread copies into pinned memory, slower than PCIe takes it from there.
constexpr double kCopyBytesPerNanosecond = 9;
// To open a lane, and to wait for the end.
constexpr double kFixedNanoseconds = 40000;
// A call of one of CUB's algorithms: a few launches and their scratch.
constexpr double kCallNanoseconds = 25000;
// Of the device's own memory.
constexpr double kDeviceBytesPerNanosecond = 1000;

double Passes(Method method, int64_t order_bytes) {
  switch (method) {
    case Method::kKeepAll:
    case Method::kBatchedTopK:
      return 2;
    case Method::kTopK:
      return 4;
    default:
      return 2 * static_cast<double>(order_bytes) + 4;  // a byte at a time
  }
}

}  // namespace

int64_t EstimateNanoseconds(const Plan& plan, int64_t rows_per_piece) {
  const int element = InfoOf(plan.dtype).bytes;
  const int index = InfoOf(plan.index_type).bytes;
  const auto rows = static_cast<double>(plan.outer * plan.n);
  const auto inner = static_cast<double>(plan.inner);
  const auto selected = static_cast<double>(plan.selected());
  const Method method = MethodOf(plan, rows_per_piece);
  const double pieces =
      std::max(rows / static_cast<double>(rows_per_piece), 1.0);
  const int64_t slices_down = std::max<int64_t>(rows_per_piece / plan.n, 1);
  const double slices_at_once = static_cast<double>(slices_down) * inner;
  const bool one_by_one =
      method == Method::kTopK || method == Method::kRadixSort;
  const double calls = pieces * ((one_by_one ? slices_at_once : 1) + 2);
  const int64_t order = OrderBytes(element);
  const double computing =
      calls * kCallNanoseconds + rows * inner * Passes(method, order) *
                                     static_cast<double>(order) /
                                     kDeviceBytesPerNanosecond;
  const double copying =
      (rows * inner * element + selected * (element + index)) /
      kCopyBytesPerNanosecond;
  return static_cast<int64_t>(
      std::min(kFixedNanoseconds + std::max(copying, computing), 9e18));
}

}  // namespace topk::cuda
