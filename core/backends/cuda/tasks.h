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

/// Enough thread blocks for every device: an H200 runs about 1000 at a time.
inline constexpr int64_t kBusyBlocks = 1024;

/// Returns into how many parts to divide each slice, so that the device has
/// enough thread blocks to be busy. Each part has at least 8 * k items, so a
/// selection from all parts leaves at most one item in 8.
inline int64_t PartsOf(int64_t slices, int64_t length, int64_t k) {
  // A part with fewer items is not worth a thread block and the merging.
  constexpr int64_t kLeastPart = 8192;
  const int64_t parts =
      std::min(kBusyBlocks / slices, length / std::max(kLeastPart, 8 * k));
  return std::max<int64_t>(parts, 1);
}

/// Items of several slices on the device. An item is an element with its index.
/// Both arrays have the shape [slices, count], and numbers of ItemBytes() / 2
/// bytes. The items of a slice are in ascending order of their indices.
struct ItemArrays {
  void* bits = nullptr;
  void* indices = nullptr;
};

/// Returns the size in bytes of an item.
constexpr int64_t ItemBytes(int element_bytes) {
  return element_bytes <= 4 ? 8 : 16;
}

/// Divides `memory` into the two arrays that hold `count` items. REQUIRES:
/// `memory` has count * ItemBytes() bytes.
inline ItemArrays ArraysIn(void* memory, int64_t count, int element_bytes) {
  return {memory,
          static_cast<char*>(memory) + count * ItemBytes(element_bytes) / 2};
}

/// Returns the size of memory that is read in vectors of 16 bytes.
constexpr int64_t RoundUpToVectors(int64_t bytes) {
  return (bytes / 16 + 1) * 16;
}

/// For each slice, selects the best k of the items kept from earlier tiles and
/// the tile's elements. Then writes either the kept items or the outputs.
struct SelectTask {
  KeyRule rule;
  /// The tile, [batches, positions, inner], contiguous and on the device. There
  /// are batches * inner slices. Its memory must begin and end at multiples of
  /// 16 bytes, or the bytes up to there must be readable.
  const void* elements = nullptr;
  int64_t batches = 1;
  int64_t positions = 0;
  int64_t inner = 1;
  /// The tile's first position along the axis.
  int64_t first_position = 0;
  /// The items kept from earlier tiles, of shape [slices, carried_count].
  ItemArrays carried;
  int64_t carried_count = 0;
  /// REQUIRES: 1 <= k <= length().
  int64_t k = 1;
  /// If the slices continue in later tiles: the kept items, of shape [slices,
  /// k]. Null if the slices end in this tile.
  ItemArrays kept;
  /// The outputs on the device, of shape [batches, k, inner]. Null if not
  /// requested, or if the slices continue in later tiles.
  void* values = nullptr;
  void* indices = nullptr;
  /// The order of the outputs: by rank, or by index.
  bool by_index = false;
  /// The size of an index, in bytes: 4 or 8.
  int index_bytes = 8;
  int64_t index_offset = 0;

  constexpr int64_t slices() const { return batches * inner; }
  constexpr int64_t length() const { return carried_count + positions; }
  constexpr int64_t kept_count() const { return slices() * k; }
  /// Whether items are written in ascending order of their indices.
  constexpr bool writes_by_index() const {
    return by_index || kept.bits != nullptr;
  }
};

/// Launches a task on `stream`. Scratch memory is allocated from `pool`. Errors
/// of the task itself are returned by a later call.
cudaError_t LaunchSelect(const SelectTask& task, cudaStream_t stream,
                         cudaMemPool_t pool);

}  // namespace topk::cuda
