// Chooses a CUB algorithm from the shape. C++17, because device code includes
// this file.
#pragma once

#include <cstdint>
#include <string_view>

namespace topk::cuda {

/// The algorithm that finds the best k of each slice.
enum class Method {
  /// Keeps all items, because k is the length of a slice.
  kKeepAll,
  /// cub::DeviceBatchedTopK: a thread block for each slice.
  kBatchedTopK,
  /// cub::DeviceTopK, one slice after another.
  kTopK,
  /// cub::DeviceSegmentedSort of whole slices.
  kSegmentedSort,
  /// cub::DeviceRadixSort of whole slices, one slice after another.
  kRadixSort,
};

/// The maximum length of a slice for DeviceBatchedTopK, which needs a
/// compile-time bound.
inline constexpr int64_t kMaxBatchedLength = 1024;

/// Returns the method for `slices` slices of `length` elements.
/// REQUIRES: slices >= 1, 1 <= k <= length.
Method ChooseMethod(int64_t slices, int64_t length, int64_t k);

/// Returns the method that sorts `slices` slices of `count` items:
/// kSegmentedSort or kRadixSort.
Method ChooseSort(int64_t slices, int64_t count);

/// Returns the kernel name used in responses, e.g. "cub_topk".
std::string_view NameOf(Method method);

}  // namespace topk::cuda
