#include "core/backends/cuda/chunks.h"

#include <algorithm>

namespace topk::cuda {
namespace {

constexpr double kMax = 9e18;  // fits int64_t

}  // namespace

int64_t PositionsPerChunk(const Plan& plan, int64_t bytes) {
  const int64_t elements = bytes / InfoOf(plan.dtype).bytes;
  const int64_t fit = std::max<int64_t>(elements / plan.inner, 1);
  if (fit >= plan.n) return std::min(fit / plan.n, plan.outer) * plan.n;
  const int64_t chunks = (plan.n - 1) / std::max(fit, plan.k) + 1;
  return (plan.n - 1) / chunks + 1;  // chunks of about equal size
}

int64_t DeviceBytes(const Plan& plan, int64_t chunk_positions, bool in_place) {
  const int element = InfoOf(plan.dtype).bytes;
  const auto item = static_cast<double>(ItemBytes(element));
  const auto positions = static_cast<double>(chunk_positions);
  const auto inner = static_cast<double>(plan.inner);
  const auto k = static_cast<double>(plan.k);
  const double batches = std::max(positions / static_cast<double>(plan.n), 1.0);
  const bool carries = chunk_positions < plan.n;
  // Two chunks unless in place, and a transposed one.
  const int copies = (in_place ? 0 : 2) + (plan.inner > 1 ? 1 : 0);
  const double chunks =
      copies * (positions * inner * element + RoundUpToVectors(0));
  // A sort has two arrays of numbers that are as large as an item, and two of
  // positions that are half as large, and 10 % for CUB. If slices have several
  // parts, all parts together keep at most one item in 8, and at most k items
  // for each of kBusyBlocks blocks. The parts of those items keep fewer.
  const double all = (positions + (carries ? k : 0)) * inner;
  const double items = (plan.k > MaxFilteredK(element)
                            ? 3.3 * all
                            : std::min(0.3 * all, 1.2 * kBusyBlocks * k)) *
                           item +
                       RoundUpToVectors(0);
  // The items from earlier chunks, and those that are kept.
  const double kept = (carries ? 2 : 0) * k * batches * inner * item;
  const double outputs = 2 * k * batches * inner * (element + 8);
  return static_cast<int64_t>(std::min(chunks + items + kept + outputs, kMax));
}

int64_t EstimateNanoseconds(const Plan& plan, int64_t chunk_positions,
                            const Speeds& speeds) {
  const int element = InfoOf(plan.dtype).bytes;
  const auto positions = static_cast<double>(plan.outer * plan.n);
  const double elements = positions * static_cast<double>(plan.inner);
  const double output = static_cast<double>(plan.output_elements()) *
                        (element + InfoOf(plan.index_type).bytes);
  const double copying = (elements * element + output) / speeds.copied_bytes;
  const double sorting =
      plan.k > MaxFilteredK(element) ? elements / speeds.sorted_items : 0;
  const double chunks =
      std::max(positions / static_cast<double>(chunk_positions), 1.0);
  // Nothing overlaps with the last chunk.
  return static_cast<int64_t>(std::min(speeds.request_nanoseconds +
                                           std::max(copying, sorting) +
                                           std::min(copying, sorting) / chunks,
                                       kMax));
}

}  // namespace topk::cuda
