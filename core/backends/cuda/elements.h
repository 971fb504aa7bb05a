// Ranks the elements of a task, and writes those that were selected. Elements
// with equal keys rank by ascending position, because positions are in the
// order of the indices.
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

/// The type that holds the bits of an element.
template <class Element>
using BitsOf = std::conditional_t<sizeof(Element) <= 4, uint32_t, uint64_t>;

/// A number that ranks an element in its slice. The upper half is the key, and
/// the lower half the inverted position, so equal keys rank by ascending
/// position. Bits is uint32_t or uint64_t.
template <class Bits>
using SortKey =
    std::conditional_t<sizeof(Bits) == 4, uint64_t, unsigned __int128>;

template <class Bits>
constexpr int kHalf = static_cast<int>(8 * sizeof(Bits));

/// The elements of a task, as unsigned integers. The rows of `task.elements`
/// must be the slices, so a tensor whose axis is not the last dimension has to
/// be transposed first.
template <class Element>
struct Elements {
  using Bits = BitsOf<Element>;

  SelectTask task;

  TOPK_HOST_DEVICE Element At(int64_t slice, int64_t position) const {
    return static_cast<const Element*>(
        task.elements)[slice * task.positions + position];
  }

  /// Returns the key of an element. Elements with greater keys rank first.
  /// Narrow elements are shifted to the top bits, which does not change their
  /// order.
  TOPK_HOST_DEVICE Bits KeyAt(int64_t slice, int64_t position) const {
    const KeyRule& rule = task.rule;
    const auto top = static_cast<Bits>(static_cast<Bits>(At(slice, position))
                                       << (kHalf<Bits> - 8 * sizeof(Element)));
    return rule.is_float ? SortKeyEncoder<Bits, true>(rule, rule.largest)(top)
                         : SortKeyEncoder<Bits, false>(rule, rule.largest)(top);
  }

  /// Writes the element at `position` of a slice as number `rank` of the
  /// slice's `count` outputs.
  TOPK_HOST_DEVICE void Write(int64_t slice, int64_t position, int64_t rank,
                              int64_t count) const {
    const Division row = Divide(slice, task.inner);
    const int64_t to =
        (row.quotient * count + rank) * task.inner + row.remainder;
    if (task.values != nullptr) {
      static_cast<Element*>(task.values)[to] = At(slice, position);
    }
    if (task.indices == nullptr) return;
    int64_t index = position + task.index_offset;
    if (task.element_indices != nullptr) {
      index = task.element_indices[(row.quotient * task.positions + position) *
                                       task.inner +
                                   row.remainder];
    }
    if (task.index_bytes == 4) {
      static_cast<int32_t*>(task.indices)[to] = static_cast<int32_t>(index);
    } else {
      static_cast<int64_t*>(task.indices)[to] = index;
    }
  }
};

}  // namespace topk::cuda
