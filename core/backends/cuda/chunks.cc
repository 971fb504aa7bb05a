#include "core/backends/cuda/chunks.h"

#include <algorithm>

namespace topk::cuda {
namespace {

constexpr double kMax = 9e18;  // fits int64_t

// Returns how often a method reads or writes each item.
double Passes(Method method, int64_t sort_key_bytes) {
  switch (method) {
    case Method::kKeepAll:
    case Method::kBatchedTopK:
      return 2;
    case Method::kTopK:
      return 4;
    default:
      return 2 * static_cast<double>(sort_key_bytes) + 4;  // a pass per byte
  }
}

}  // namespace

int64_t PositionsPerChunk(const Plan& plan, int64_t bytes) {
  const int64_t elements = bytes / InfoOf(plan.dtype).bytes;
  const int64_t all = plan.outer * plan.n;
  const int64_t fit = std::max<int64_t>(elements / plan.inner, 1);
  if (fit >= plan.n) return std::min(fit / plan.n * plan.n, all);
  return std::min({std::max(fit, plan.k), plan.n, all});
}

std::vector<Tile> CutTiles(const Plan& plan, int64_t begin, int64_t end) {
  std::vector<Tile> tiles;
  while (begin < end) {
    Tile tile{begin / plan.n, 1, begin % plan.n, 0};
    tile.positions = std::min(plan.n - tile.first_position, end - begin);
    if (tile.positions == plan.n) tile.batches = (end - begin) / plan.n;
    begin += tile.batches * tile.positions;
    tiles.push_back(tile);
  }
  return tiles;
}

Method MethodOf(const Plan& plan, int64_t chunk_positions) {
  const int64_t batches = std::max<int64_t>(chunk_positions / plan.n, 1);
  // If a slice spans several chunks, each chunk except the first also processes
  // the k items carried from the previous chunk.
  const bool whole = chunk_positions >= plan.n;
  const int64_t length = whole ? plan.n : chunk_positions + plan.k;
  return ChooseMethod(batches * plan.inner, length, plan.k);
}

int64_t DeviceBytes(const Plan& plan, int64_t chunk_positions) {
  const int element = InfoOf(plan.dtype).bytes;
  const auto item = static_cast<double>(ItemBytes(element));
  const auto positions = static_cast<double>(chunk_positions);
  const auto inner = static_cast<double>(plan.inner);
  const auto k = static_cast<double>(plan.k);
  const double batches = std::max(positions / static_cast<double>(plan.n), 1.0);
  const bool carries = chunk_positions < plan.n;
  const double chunks = 2 * positions * inner * element;
  // A sort needs its input, its output, a copy of the input, and 20 % more for
  // the histograms of CUB.
  const double sorted = 3.2 * (positions + (carries ? k : 0)) * inner * item;
  // Three buffers of k items per slice: the items carried from earlier chunks,
  // the selected items, and the items in output order.
  const double kept = 3 * k * batches * inner * item;
  const double outputs = 2 * k * batches * inner * (element + 8);
  return static_cast<int64_t>(std::min(chunks + sorted + kept + outputs, kMax));
}

int64_t EstimateNanoseconds(const Plan& plan, int64_t chunk_positions) {
  // One thread copies to pinned memory at this speed. PCIe is faster.
  constexpr double kCopyBytesPerNanosecond = 9;
  // The fixed overhead of a run: opening a lane and waiting for the result.
  constexpr double kFixedNanoseconds = 40000;
  // The overhead of a CUB call: a few kernel launches and a scratch allocation.
  constexpr double kCallNanoseconds = 25000;
  constexpr double kDeviceBytesPerNanosecond = 1000;

  const int element = InfoOf(plan.dtype).bytes;
  const auto elements = static_cast<double>(plan.outer * plan.n) *
                        static_cast<double>(plan.inner);
  const auto output = static_cast<double>(plan.output_elements()) *
                      (element + InfoOf(plan.index_type).bytes);
  const double chunks = std::max(static_cast<double>(plan.outer * plan.n) /
                                     static_cast<double>(chunk_positions),
                                 1.0);
  const double slices =
      static_cast<double>(std::max<int64_t>(chunk_positions / plan.n, 1)) *
      static_cast<double>(plan.inner);
  const Method method = MethodOf(plan, chunk_positions);
  const bool one_by_one =
      method == Method::kTopK || method == Method::kRadixSort;
  const auto sort_key_bytes = SortKeyBytes(element);
  const double computing =
      chunks * ((one_by_one ? slices : 1) + 2) * kCallNanoseconds +
      elements * Passes(method, sort_key_bytes) *
          static_cast<double>(sort_key_bytes) / kDeviceBytesPerNanosecond;
  const double copying =
      (elements * element + output) / kCopyBytesPerNanosecond;
  return static_cast<int64_t>(
      std::min(kFixedNanoseconds + std::max(copying, computing), kMax));
}

}  // namespace topk::cuda
