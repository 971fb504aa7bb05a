#include "core/backends/cuda/tasks.h"

namespace topk::cuda {
namespace {

// A segmented sort uses one thread block for a long segment. A radix sort uses
// the whole device for a segment, but needs a dozen launches per segment.
constexpr int64_t kLongSegment = int64_t{1} << 16;

// If k is more than a quarter of the slice, a selection reads the slice about
// as often as a sort.
constexpr int64_t kSortBeyondOneIn = 4;

// Up to this number of slices, processing one slice at a time makes better use
// of the device than one thread block per slice.
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
