#include "core/backends/cuda/chunks.h"

#include <algorithm>

#include "core/base/checked.h"

namespace topk::cuda {

int64_t BatchesPerChunk(const Plan& plan, int64_t bytes) {
  return std::clamp<int64_t>(bytes / (plan.input.bytes / plan.outer), 1,
                             plan.outer);
}

int64_t DeviceBytes(const Plan& plan, int64_t chunk_batches, bool in_place) {
  constexpr double kRounding = 512;
  const int element = InfoOf(plan.dtype).bytes;
  const auto k = static_cast<double>(plan.k);
  const double slices =
      static_cast<double>(chunk_batches) * static_cast<double>(plan.inner);
  const double elements = slices * static_cast<double>(plan.n);
  // The chunk, and a transposed one.
  const int copies = (in_place ? 0 : 1) + (plan.inner > 1 ? 1 : 0);
  const double outputs = slices * k * (element + 8);
  // A sort has two arrays of keys with positions and two of positions, and 10 %
  // for CUB. If slices have several parts, all parts together keep at most one
  // element in 8, and at most k elements for each of kBusyBlocks blocks. The
  // parts of those keep fewer.
  const double scratch =
      plan.k > MaxFilteredK(element)
          ? 3.3 * elements * (element <= 4 ? 8 : 16)
          : 1.2 * std::min(elements / 8, kBusyBlocks * k) * (2 * element + 8);
  return Size::Of(copies * elements * element + outputs + scratch + kRounding)
      .value();
}

int64_t EstimateNanoseconds(const Plan& plan, const Speeds& speeds) {
  const int element = InfoOf(plan.dtype).bytes;
  const auto elements = static_cast<double>(plan.slices() * plan.n);
  const double output = static_cast<double>(plan.output_elements()) *
                        (element + InfoOf(plan.index_type).bytes);
  const double copying = (elements * element + output) / speeds.copied_bytes;
  const double sorting =
      plan.k > MaxFilteredK(element) ? elements / speeds.sorted_elements : 0;
  return Size::Of(speeds.request_nanoseconds + copying + sorting).value();
}

}  // namespace topk::cuda
