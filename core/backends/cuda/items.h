// An item is an element and its position in a task's slice: first the items
// kept from earlier tiles, then the elements of this tile. Items with equal
// keys rank by ascending position, because positions are in the order of the
// indices.
//
// Limited to C++17, because this file is compiled for host and device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/backends/cuda/tasks.h"
#include "core/base/sort_key_encoder.h"

#ifdef __CUDACC__
#define TOPK_HOST_DEVICE __host__ __device__
#else
#define TOPK_HOST_DEVICE
#endif

namespace topk::cuda {

/// A quotient and its remainder.
struct Division {
  int64_t quotient;
  int64_t remainder;
};

/// Divides non-negative numbers, in 32 bits if possible, because a 64-bit
/// division takes several times as long on a GPU.
TOPK_HOST_DEVICE inline Division Divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) != 0) return {a / b, a % b};
  const auto low = static_cast<uint32_t>(b);
  return {static_cast<uint32_t>(a) / low, static_cast<uint32_t>(a) % low};
}

/// A number that ranks an item in its slice. The upper half is the key, and the
/// lower half the inverted position, so equal keys rank by ascending position.
/// Bits is uint32_t or uint64_t, the type that holds an element's bits.
template <class Bits>
using SortKey =
    std::conditional_t<sizeof(Bits) == 4, uint64_t, unsigned __int128>;

template <class Bits>
constexpr int kHalf = static_cast<int>(8 * sizeof(Bits));

template <class Bits>
TOPK_HOST_DEVICE SortKey<Bits> MakeSortKey(Bits key, int64_t position) {
  return (static_cast<SortKey<Bits>>(key) << kHalf<Bits>) |
         static_cast<Bits>(~static_cast<Bits>(position));
}

/// Returns the bits of element `at`, in the low bits of the result.
template <class Bits>
TOPK_HOST_DEVICE Bits ReadElement(const void* elements, int bytes, int64_t at) {
  switch (bytes) {
    case 1:
      return static_cast<const uint8_t*>(elements)[at];
    case 2:
      return static_cast<const uint16_t*>(elements)[at];
    case 4:
      return static_cast<const uint32_t*>(elements)[at];
    default:
      return static_cast<Bits>(static_cast<const uint64_t*>(elements)[at]);
  }
}

template <class Bits>
TOPK_HOST_DEVICE void WriteElement(void* elements, int bytes, int64_t at,
                                   Bits bits) {
  switch (bytes) {
    case 1:
      static_cast<uint8_t*>(elements)[at] = static_cast<uint8_t>(bits);
      break;
    case 2:
      static_cast<uint16_t*>(elements)[at] = static_cast<uint16_t>(bits);
      break;
    case 4:
      static_cast<uint32_t*>(elements)[at] = static_cast<uint32_t>(bits);
      break;
    default:
      static_cast<uint64_t*>(elements)[at] = bits;
  }
}

/// The items of a task. The rows of `task.elements` must be the slices, so a
/// tile whose axis is not the last dimension has to be transposed first.
template <class Bits>
struct Items {
  SelectTask task;

  TOPK_HOST_DEVICE Bits BitsAt(int64_t slice, int64_t position) const {
    if (position < task.carried_count) {
      return static_cast<const Bits*>(
          task.carried.bits)[slice * task.carried_count + position];
    }
    return ReadElement<Bits>(
        task.elements, task.rule.bytes,
        slice * task.positions + position - task.carried_count);
  }

  /// Returns the key of an item. Items with greater keys rank first. Narrow
  /// elements are shifted to the top bits, which does not change their order.
  TOPK_HOST_DEVICE Bits KeyAt(int64_t slice, int64_t position) const {
    const KeyRule& rule = task.rule;
    const auto top = static_cast<Bits>(BitsAt(slice, position)
                                       << (kHalf<Bits> - 8 * rule.bytes));
    return rule.is_float ? SortKeyEncoder<Bits, true>(rule, rule.largest)(top)
                         : SortKeyEncoder<Bits, false>(rule, rule.largest)(top);
  }

  TOPK_HOST_DEVICE int64_t IndexAt(int64_t slice, int64_t position) const {
    if (position < task.carried_count) {
      return static_cast<int64_t>(static_cast<const Bits*>(
          task.carried.indices)[slice * task.carried_count + position]);
    }
    return task.first_position + position - task.carried_count;
  }

  /// Writes the item at `position` of a slice as number `rank` of the k items.
  /// If the slice has several parts, each part keeps k items.
  TOPK_HOST_DEVICE void Write(int64_t slice, int64_t parts, int64_t part,
                              int64_t rank, int64_t position) const {
    const Bits bits = BitsAt(slice, position);
    const int64_t index = IndexAt(slice, position);
    if (task.kept.bits != nullptr) {
      const int64_t at = (slice * parts + part) * task.k + rank;
      static_cast<Bits*>(task.kept.bits)[at] = bits;
      static_cast<Bits*>(task.kept.indices)[at] = static_cast<Bits>(index);
      return;
    }
    const Division row = Divide(slice, task.inner);
    const int64_t at =
        (row.quotient * task.k + rank) * task.inner + row.remainder;
    if (task.values != nullptr) {
      WriteElement(task.values, task.rule.bytes, at, bits);
    }
    if (task.indices != nullptr) {
      WriteElement(task.indices, task.index_bytes, at,
                   static_cast<uint64_t>(index + task.index_offset));
    }
  }
};

}  // namespace topk::cuda
