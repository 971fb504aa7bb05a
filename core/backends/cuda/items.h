// An item represents an element. The item's sort key contains the element's
// index and is therefore unique in the slice. All correct selections return the
// same items, because there are no ties.
//
// Limited to C++17, because this file is compiled for host and device.
#pragma once

#include <cstdint>

#include "core/backends/cuda/tasks.h"
#include "core/base/sort_key_encoder.h"

#ifdef __CUDACC__
#define TOPK_HOST_DEVICE __host__ __device__
#else
#define TOPK_HOST_DEVICE
#endif

namespace topk::cuda {

__extension__ using SortKey128 = unsigned __int128;

/// Returns the key of an element. Elements with greater keys rank first. Key is
/// uint32_t for elements of up to 4 bytes, and uint64_t for wider elements, so
/// that two kernels serve all types. Narrow elements are shifted to the top
/// bits of Key, which does not change their order.
template <class Key>
constexpr Key KeyOf(const KeyRule& rule, Key bits) {
  const int up = static_cast<int>(8 * sizeof(Key)) - 8 * rule.bytes;
  const Key top = static_cast<Key>(bits << up);
  return rule.is_float ? SortKeyEncoder<Key, true>(rule, rule.largest)(top)
                       : SortKeyEncoder<Key, false>(rule, rule.largest)(top);
}

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

/// The types of an item's sort key and bits. BitsT is uint32_t or uint64_t.
template <class SortKeyT, class BitsT>
struct ItemTypes {
  using SortKey = SortKeyT;
  using Bits = BitsT;
  static constexpr int kHalf = static_cast<int>(8 * sizeof(Bits));
  static_assert(sizeof(SortKey) == 2 * sizeof(Bits));

  /// Returns a number that ranks an element. Its upper half is the key, and its
  /// lower half the inverted index, so equal keys rank by ascending index.
  TOPK_HOST_DEVICE static SortKey SortKeyOf(const KeyRule& rule, Bits bits,
                                            int64_t index) {
    const Bits key = KeyOf<Bits>(rule, bits);
    return (static_cast<SortKey>(key) << kHalf) |
           static_cast<SortKey>(static_cast<Bits>(~static_cast<Bits>(index)));
  }

  /// Returns a sort key that ranks items by index alone, lowest index first.
  TOPK_HOST_DEVICE static SortKey ByIndex(SortKey sort_key) {
    return sort_key << kHalf;
  }

  /// Returns the index of the element whose sort key is `sort_key`. If
  /// `arrangement` is kByIndex, `sort_key` must come from ByIndex().
  TOPK_HOST_DEVICE static int64_t IndexOf(SortKey sort_key,
                                          Arrangement arrangement) {
    if (arrangement == Arrangement::kByIndex) sort_key >>= kHalf;
    return static_cast<int64_t>(static_cast<Bits>(~sort_key));
  }
};

using NarrowItems = ItemTypes<uint64_t, uint32_t>;
using WideItems = ItemTypes<SortKey128, uint64_t>;

/// The items of a task: those kept from earlier tiles, then those of this tile.
/// Items of this tile are computed on access.
template <class Types>
struct ItemSource {
  using SortKey = typename Types::SortKey;
  using Bits = typename Types::Bits;

  SelectTask task;

  /// Returns the sort key of item i of slice s.
  TOPK_HOST_DEVICE SortKey SortKeyAt(int64_t s, int64_t i) const {
    if (i < task.carried_count) {
      return static_cast<const SortKey*>(
          task.carried.sort_keys)[s * task.carried_count + i];
    }
    return Types::SortKeyOf(task.rule, BitsAt(s, i),
                            task.first_position + i - task.carried_count);
  }

  /// Returns the bits of item i of slice s.
  TOPK_HOST_DEVICE Bits BitsAt(int64_t s, int64_t i) const {
    if (i < task.carried_count) {
      return static_cast<const Bits*>(
          task.carried.bits)[s * task.carried_count + i];
    }
    const Division slice = Divide(s, task.inner);
    const int64_t position =
        slice.quotient * task.positions + i - task.carried_count;
    const int64_t at = position * task.inner + slice.remainder;
    switch (task.rule.bytes) {
      case 1:
        return static_cast<const uint8_t*>(task.elements)[at];
      case 2:
        return static_cast<const uint16_t*>(task.elements)[at];
      case 4:
        return static_cast<const uint32_t*>(task.elements)[at];
      default:
        return static_cast<Bits>(
            static_cast<const uint64_t*>(task.elements)[at]);
    }
  }
};

/// Writes element t of a task's outputs.
template <class Types>
TOPK_HOST_DEVICE void WriteOutput(const SelectTask& task, int64_t t) {
  const Division column = Divide(t, task.inner);
  const Division rank = Divide(column.quotient, task.k);
  const int64_t slice = rank.quotient * task.inner + column.remainder;
  const int64_t from = slice * task.k + rank.remainder;
  if (task.values != nullptr) {
    const auto bits =
        static_cast<const typename Types::Bits*>(task.kept.bits)[from];
    switch (task.rule.bytes) {
      case 1:
        static_cast<uint8_t*>(task.values)[t] = static_cast<uint8_t>(bits);
        break;
      case 2:
        static_cast<uint16_t*>(task.values)[t] = static_cast<uint16_t>(bits);
        break;
      case 4:
        static_cast<uint32_t*>(task.values)[t] = static_cast<uint32_t>(bits);
        break;
      default:
        static_cast<uint64_t*>(task.values)[t] = bits;
    }
  }
  if (task.indices != nullptr) {
    const int64_t index =
        task.index_offset +
        Types::IndexOf(static_cast<const typename Types::SortKey*>(
                           task.kept.sort_keys)[from],
                       task.arrangement);
    if (task.index_bytes == 4) {
      static_cast<uint32_t*>(task.indices)[t] = static_cast<uint32_t>(index);
    } else {
      static_cast<int64_t*>(task.indices)[t] = index;
    }
  }
}

}  // namespace topk::cuda
