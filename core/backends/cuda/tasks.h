// Device tasks as plain data, and the functions that launch them. C++17,
// because the compilers of host and device include this file.
#pragma once

#include <cstdint>

#include "core/backends/cuda/key_rule.h"
#include "core/backends/cuda/method.h"

namespace topk::cuda {

/// Items of some slices, [slices, count], on the device. An item consists of an
/// order and the bits of its element. Orders are unique in a slice, and items
/// with greater orders rank first (items.h). Elements of up to 4 bytes have
/// 8-byte orders and 4-byte bits; wider elements have 16-byte orders and 8-byte
/// bits.
struct ItemArrays {
  void* orders = nullptr;
  void* bits = nullptr;
};

/// Return the sizes of an item's order and of an item, in bytes.
constexpr int64_t OrderBytes(int element_bytes) {
  return element_bytes <= 4 ? 8 : 16;
}
constexpr int64_t ItemBytes(int element_bytes) {
  return OrderBytes(element_bytes) * 3 / 2;
}

/// Returns the arrays of `count` items in memory of count * ItemBytes() bytes:
/// the orders, followed by the bits.
inline ItemArrays ArraysIn(void* memory, int64_t count, int element_bytes) {
  return {memory,
          static_cast<char*>(memory) + count * OrderBytes(element_bytes)};
}

/// The order in which a task writes items.
enum class Arrangement { kAny, kByValue, kByIndex };

/// Keeps the best k items of each slice, out of a tile of the tensor and the
/// items kept from earlier tiles.
struct SelectTask {
  KeyRule rule;
  /// [batches, positions, inner], contiguous, on the device. There are
  /// batches * inner slices.
  const void* elements = nullptr;
  int64_t batches = 1;
  int64_t positions = 0;
  int64_t inner = 1;
  /// The index of the first position along the axis.
  int64_t first_position = 0;
  /// [slices, carried_count]; empty at the start of a slice.
  ItemArrays carried;
  int64_t carried_count = 0;
  /// The result, [slices, k]. With kByIndex the orders are those of ByIndex().
  /// REQUIRES: 1 <= k <= length().
  ItemArrays kept;
  int64_t k = 1;
  Method method = Method::kKeepAll;
  Arrangement arrangement = Arrangement::kAny;

  constexpr int64_t slices() const { return batches * inner; }
  constexpr int64_t length() const { return carried_count + positions; }
};

/// Writes the outputs of some batches, [batches, k, inner], from the items that
/// a selection kept.
struct EmitTask {
  SelectTask selected;
  /// On the device. Null if the output is not wanted.
  void* values = nullptr;
  void* indices = nullptr;
  /// 4 or 8.
  int index_bytes = 8;
  int64_t index_offset = 0;

  constexpr int64_t outputs() const { return selected.slices() * selected.k; }
};

/// Launches a task on `stream`, a cudaStream_t. Scratch memory is allocated
/// from `pool`, a cudaMemPool_t. Returns a cudaError_t. Errors of the task
/// itself are returned by a later call.
int LaunchSelect(const SelectTask& task, void* stream, void* pool);
int LaunchEmit(const EmitTask& task, void* stream);

}  // namespace topk::cuda
