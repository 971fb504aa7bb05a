// Tasks of the device, as plain data. C++17, because the host's and the
// device's compilers include it.
#pragma once

#include <cstdint>

#include "core/backends/cuda/key_rule.h"
#include "core/backends/cuda/method.h"

namespace topk::cuda {

/// Items of some slices, [slices, count], on the device. An item is an order
/// and the bits of its element. Orders are unique in a slice, and the greater
/// is the better: see items.h. Elements of up to 4 bytes have orders of 8
/// bytes and bits of 4; wider ones 16 and 8.
struct ItemArrays {
  void* orders = nullptr;
  void* bits = nullptr;
};

/// The bytes of an item's order, and of its bits.
constexpr int64_t OrderBytes(int element_bytes) {
  return element_bytes <= 4 ? 8 : 16;
}
constexpr int64_t BitsBytes(int element_bytes) {
  return OrderBytes(element_bytes) / 2;
}

/// How the items that are kept are arranged.
enum class Arrangement { kAny, kByValue, kByIndex };

/// Keeps the best k of each slice: of a part of the tensor, and of items that
/// earlier parts left.
struct SelectTask {
  KeyRule rule;
  /// [blocks, rows, inner], packed, on the device: blocks * inner slices.
  const void* elements = nullptr;
  int64_t blocks = 1;
  int64_t rows = 0;
  int64_t inner = 1;
  /// Where along the axis the first of the rows is.
  int64_t first_row = 0;
  /// [slices, carried_count]; none at the beginning of a slice.
  ItemArrays carried;
  int64_t carried_count = 0;
  /// The result, [slices, k]; with kByIndex an order that EmitTask reads.
  /// REQUIRES: 1 <= k <= length().
  ItemArrays kept;
  int64_t k = 1;
  Method method = Method::kKeepAll;
  Arrangement arrangement = Arrangement::kAny;

  constexpr int64_t slices() const { return blocks * inner; }
  constexpr int64_t length() const { return carried_count + rows; }
};

/// Writes the answer of some blocks, [blocks, k, inner], from their items.
struct EmitTask {
  /// [blocks * inner, k], arranged.
  ItemArrays items;
  Arrangement arrangement = Arrangement::kByValue;
  int64_t blocks = 1;
  int64_t k = 1;
  int64_t inner = 1;
  int element_bytes = 4;
  /// On the device; null where the output is not wanted.
  void* values = nullptr;
  void* indices = nullptr;
  /// 4 or 8.
  int index_bytes = 8;
  int64_t index_offset = 0;

  constexpr int64_t outputs() const { return blocks * k * inner; }
};

}  // namespace topk::cuda
