#include "core/backends/cuda/tasks.h"

namespace topk::cuda {
namespace {

// Slices of at least this length are radix-sorted by the whole device, in a
// dozen launches. A segmented sort has only one thread block for a slice.
constexpr int64_t kLongSegment = int64_t{1} << 16;

// If k is more than a quarter of the slice's length, sort the slice. A
// selection would read the slice about as often as a sort.
constexpr int64_t kSortBeyondOneIn = 4;

// Up to this many slices are processed one after another, each by the whole
// device. One thread block per slice would leave most of the device idle.
constexpr int64_t kFewSlices = 64;

}  // namespace

Method ChooseSort(int64_t slices, int64_t count) {
  return slices == 1 || count >= kLongSegment ? Method::kRadixSort
                                              : Method::kSegmentedSort;
}

Method ChooseMethod(int64_t slices, int64_t length, int64_t k) {
  if (k == length) return Method::kKeepAll;
  if (length <= kMaxBatchedLength) return Method::kBatchedTopK;
  if (k > length / kSortBeyondOneIn) return ChooseSort(slices, length);
  if (slices <= kFewSlices || length >= kLongSegment) return Method::kTopK;
  return Method::kSegmentedSort;
}

std::string_view NameOf(Method method) {
  constexpr std::string_view kNames[] = {"cub_keep_all", "cub_batched_topk",
                                         "cub_topk", "cub_segmented_sort",
                                         "cub_radix_sort"};
  return kNames[static_cast<size_t>(method)];
}

}  // namespace topk::cuda
