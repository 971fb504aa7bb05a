// The tasks of a device, as plain data, and the functions that launch them.
// C++17, because the compilers of host and device include this file.
#pragma once

#include <cstdint>

#include "core/backends/cuda/key_rule.h"
#include "core/backends/cuda/method.h"

namespace topk::cuda {

/// Items of some slices, [slices, count], on the device. An item is an order
/// and the bits of its element. Orders are unique in a slice; items with
/// greater orders rank first (see items.h). Elements of up to 4 bytes have
/// orders of 8 bytes and bits of 4 bytes. Wider elements have 16 and 8.
struct ItemArrays {
  void* orders = nullptr;
  void* bits = nullptr;
};

/// The bytes of an item's order, and of an item.
constexpr int64_t OrderBytes(int element_bytes) {
  return element_bytes <= 4 ? 8 : 16;
}
constexpr int64_t ItemBytes(int element_bytes) {
  return OrderBytes(element_bytes) * 3 / 2;
}

/// Returns the arrays of `count` items in memory of count * ItemBytes() bytes:
/// the orders, then the bits.
inline ItemArrays ArraysIn(void* memory, int64_t count, int element_bytes) {
  return {memory,
          static_cast<char*>(memory) + count * OrderBytes(element_bytes)};
}

/// The order in which a task writes items.
enum class Arrangement { kAny, kByValue, kByIndex };

/// Keeps the best k items of each slice: of a tile of the tensor, and of the
/// items that earlier tiles kept.
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
  /// [slices, carried_count]; empty at the beginning of a slice.
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

/// Writes the outputs of some batches, [batches, k, inner], from their items.
struct EmitTask {
  /// [batches * inner, k], arranged.
  ItemArrays items;
  Arrangement arrangement = Arrangement::kByValue;
  int64_t batches = 1;
  int64_t k = 1;
  int64_t inner = 1;
  int element_bytes = 4;
  /// On the device. Null if the output is not wanted.
  void* values = nullptr;
  void* indices = nullptr;
  /// 4 or 8.
  int index_bytes = 8;
  int64_t index_offset = 0;

  constexpr int64_t outputs() const { return batches * k * inner; }
};

/// Launches a task on `stream`, a cudaStream_t. `pool`, a cudaMemPool_t, has
/// the scratch memory. Returns a cudaError_t; a later call returns the errors
/// of the task itself.
int LaunchSelect(const SelectTask& task, void* stream, void* pool);
int LaunchEmit(const EmitTask& task, void* stream);

}  // namespace topk::cuda
