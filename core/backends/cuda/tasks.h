// Describes device tasks as plain data, chooses their algorithms, and launches
// them. Limited to C++17, because this file is compiled for host and device.
#pragma once

#include <cstdint>
#include <string_view>

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

/// The algorithm that finds the best k of each slice.
enum class Method {
  /// Keeps all items. Used if k is the length of a slice.
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

/// Items of several slices on the device. Both arrays have the shape [slices,
/// count]. `sort_keys` holds sort keys (see items.h), and `bits` holds the
/// elements' bits. Items with greater sort keys rank first. No two items of a
/// slice have the same sort key. Sort keys take SortKeyBytes() bytes each, and
/// bits take half as many.
struct ItemArrays {
  void* sort_keys = nullptr;
  void* bits = nullptr;
};

/// Returns the size in bytes of an item's sort key, which includes the index.
constexpr int64_t SortKeyBytes(int element_bytes) {
  return element_bytes <= 4 ? 8 : 16;
}
constexpr int64_t ItemBytes(int element_bytes) {
  return SortKeyBytes(element_bytes) * 3 / 2;
}

/// Divides `memory` into the two arrays that hold `count` items. REQUIRES:
/// `memory` has count * ItemBytes() bytes.
inline ItemArrays ArraysIn(void* memory, int64_t count, int element_bytes) {
  return {memory,
          static_cast<char*>(memory) + count * SortKeyBytes(element_bytes)};
}

/// The order in which a task writes items.
enum class Arrangement { kAny, kByValue, kByIndex };

/// For each slice, selects the best k of the tile's elements and the items kept
/// from earlier tiles. Then writes the requested outputs.
struct SelectTask {
  KeyRule rule;
  /// The tile, [batches, positions, inner], contiguous and on the device. There
  /// are batches * inner slices.
  const void* elements = nullptr;
  int64_t batches = 1;
  int64_t positions = 0;
  int64_t inner = 1;
  /// The tile's first position along the axis.
  int64_t first_position = 0;
  /// The items kept from earlier tiles, of shape [slices, carried_count].
  ItemArrays carried;
  int64_t carried_count = 0;
  /// The kept items, of shape [slices, k]. If `arrangement` is kByIndex, their
  /// sort keys are from ItemTypes::ByIndex(). REQUIRES: 1 <= k <= length().
  ItemArrays kept;
  int64_t k = 1;
  Method method = Method::kKeepAll;
  Arrangement arrangement = Arrangement::kAny;
  /// The outputs on the device, of shape [batches, k, inner]. Null if not
  /// requested, or if the slices continue in later tiles.
  void* values = nullptr;
  void* indices = nullptr;
  /// The size of an index, in bytes: 4 or 8.
  int index_bytes = 8;
  int64_t index_offset = 0;

  constexpr int64_t slices() const { return batches * inner; }
  constexpr int64_t length() const { return carried_count + positions; }
  constexpr int64_t kept_count() const { return slices() * k; }
};

/// Launches a task on `stream`, a cudaStream_t. Scratch memory is allocated
/// from `pool`, a cudaMemPool_t. Returns a cudaError_t. Errors of the task
/// itself are returned by a later call.
int LaunchSelect(const SelectTask& task, void* stream, void* pool);

}  // namespace topk::cuda
