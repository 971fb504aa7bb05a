// Describes device tasks as plain data, chooses their algorithms, and launches
// them. Limited to C++17, because this file is compiled for host and device.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace topk::cuda {

/// The element type and the direction, which determine the keys.
struct KeyRule {
  /// DTypeInfo's sign and infinity, shifted to the top bits of the key.
  uint64_t sign = 0;
  uint64_t infinity = 0;
  /// The size of an element, in bytes: 1, 2, 4 or 8.
  int bytes = 4;
  bool is_float = false;
  bool largest = true;
};

/// Returns the KeyRule of a DTypeInfo, or of a struct with the same fields.
template <class Type>
constexpr KeyRule RuleOf(const Type& type, bool largest) {
  const int up = (type.bytes <= 4 ? 32 : 64) - 8 * type.bytes;
  return {type.sign << up, type.infinity << up, type.bytes, type.is_float,
          largest};
}

/// The largest k for which filter.h selects the best k of each slice. For a
/// larger k, cub::DeviceRadixSort sorts all slices at once.
constexpr int64_t MaxFilteredK(int element_bytes) {
  return element_bytes <= 4 ? 2048 : 1024;
}

/// Enough thread blocks for every device: an H200 runs 528 large blocks of
/// filter.h at a time.
inline constexpr int64_t kBusyBlocks = 1024;

/// Returns into how many parts to divide each slice, so that the device has
/// enough thread blocks to be busy. Each part has at least 8 * k elements, so a
/// selection from all parts leaves at most one element in 8.
inline int64_t PartsOf(int64_t slices, int64_t length, int64_t k) {
  // A part with fewer elements is not worth a thread block and the merging.
  constexpr int64_t kLeastPart = 8192;
  const int64_t parts =
      std::min(kBusyBlocks / slices, length / std::max(kLeastPart, 8 * k));
  return std::max<int64_t>(parts, 1);
}

/// Returns the size of memory that is read in vectors of 16 bytes.
constexpr int64_t RoundUpToVectors(int64_t bytes) {
  return (bytes / 16 + 1) * 16;
}

/// Selects the best k elements of each slice, and writes them with their
/// indices.
struct SelectTask {
  KeyRule rule;
  /// The elements, [batches, positions, inner], contiguous and on the device.
  /// There are batches * inner slices. The memory must begin and end at
  /// multiples of 16 bytes, or the bytes up to there must be readable.
  const void* elements = nullptr;
  int64_t batches = 1;
  int64_t positions = 0;
  int64_t inner = 1;
  /// The indices of the elements, in the same shape, ascending in each slice.
  /// If null, the index of an element is its position plus `index_offset`.
  const int64_t* element_indices = nullptr;
  int64_t index_offset = 0;
  /// REQUIRES: 1 <= k <= positions.
  int64_t k = 1;
  /// The outputs on the device, [batches, k, inner]. Null if not requested.
  void* values = nullptr;
  void* indices = nullptr;
  /// The size of an index, in bytes: 4 or 8.
  int index_bytes = 8;
  /// The order of the outputs: by rank, or by index.
  bool by_index = false;

  constexpr int64_t slices() const { return batches * inner; }
};

/// Launches a task on `stream`. Errors of the task itself are returned by a
/// later call.
cudaError_t LaunchSelect(const SelectTask& task, cudaStream_t stream);

}  // namespace topk::cuda
