// Chooses CUB's algorithm from the shape. C++17, because the device code
// includes it.
#pragma once

#include <cstdint>
#include <string_view>

namespace topk::cuda {

/// How the best k of each slice are found.
enum class Method {
  /// k is all there is: nothing to find.
  kKeepAll,
  /// cub::DeviceBatchedTopK: a block for each slice.
  kBatchedTopK,
  /// cub::DeviceTopK, slice after slice.
  kTopK,
  /// cub::DeviceSegmentedSort of whole slices.
  kSegmentedSort,
  /// cub::DeviceRadixSort of whole slices, slice after slice.
  kRadixSort,
};

/// The capacity of one block; DeviceBatchedTopK requires it at compile time.
inline constexpr int64_t kMaxBatchedLength = 1024;

/// Returns the method for `slices` slices of `length` elements.
/// REQUIRES: slices >= 1, 1 <= k <= length.
Method ChooseMethod(int64_t slices, int64_t length, int64_t k);

/// Returns how to put `slices` slices of `count` items in order: kSegmentedSort
/// or kRadixSort.
Method ChooseSort(int64_t slices, int64_t count);

/// Returns the name that answers carry, e.g. "cub_topk".
std::string_view NameOf(Method method);

}  // namespace topk::cuda
