#include "core/backends/cuda/method.h"

namespace topk::cuda {
namespace {

// A segmented sort has one block for a long segment; a device sort has all of
// them for one segment, but a dozen launches each.
constexpr int64_t kLongSegment = int64_t{1} << 16;

// Beyond it a selection reads about as often as a sort.
constexpr int64_t kSortBeyondOneIn = 4;

// Up to this number of slices, processing them one after another fills a device
// better than one block per slice.
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
  switch (method) {
    case Method::kKeepAll:
      return "cub_keep_all";
    case Method::kBatchedTopK:
      return "cub_batched_topk";
    case Method::kTopK:
      return "cub_topk";
    case Method::kSegmentedSort:
      return "cub_segmented_sort";
    case Method::kRadixSort:
      return "cub_radix_sort";
  }
  return "cub";
}

}  // namespace topk::cuda
