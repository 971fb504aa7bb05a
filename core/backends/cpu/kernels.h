// The loops over elements, shared by whole tensors and folds: feed a run of a
// row, feed runs of columns, write a finished slice.
#pragma once

#include <tbb/parallel_sort.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/backends/backend.h"
#include "core/backends/cpu/selection.h"
#include "core/base/dtype.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Calls `fn` with the KeyMap of the plan's element type and direction. The
/// twelve types share seven maps: a width, and whether it is a float.
template <class Fn>
auto WithKeyMap(const Plan& plan, Fn fn) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const bool largest = plan.direction == Direction::kLargest;
  switch (type.bytes * 2 + (type.is_float ? 1 : 0)) {
    case 2:
      return fn(KeyMap<uint8_t, false>(type, largest));
    case 4:
      return fn(KeyMap<uint16_t, false>(type, largest));
    case 5:
      return fn(KeyMap<uint16_t, true>(type, largest));
    case 8:
      return fn(KeyMap<uint32_t, false>(type, largest));
    case 9:
      return fn(KeyMap<uint32_t, true>(type, largest));
    case 16:
      return fn(KeyMap<uint64_t, false>(type, largest));
    default:
      return fn(KeyMap<uint64_t, true>(type, largest));
  }
}

/// Returns the element at a position of unaligned memory.
template <class Key>
Key Load(const std::byte* elements, int64_t position) {
  Key bits;
  std::memcpy(&bits, elements + position * static_cast<int64_t>(sizeof(Key)),
              sizeof(Key));
  return bits;
}

/// Offers elements 0, stride, 2 * stride ... to one selection, with the indices
/// first, first + 1, ...
template <class Key, bool kFloat>
void FeedRow(const KeyMap<Key, kFloat>& map, const std::byte* elements,
             int64_t count, int64_t stride, int64_t first,
             Selection<Key>& selection) {
  for (int64_t i = 0; i < count; ++i) {
    const Key bits = Load<Key>(elements, i * stride);
    selection.Offer(map(bits), bits, static_cast<uint64_t>(first + i));
  }
}

/// Offers neighbouring elements to neighbouring selections, all with one index.
template <class Key, bool kFloat>
void FeedColumns(const KeyMap<Key, kFloat>& map, const std::byte* elements,
                 int64_t index, std::span<Selection<Key>> selections) {
  for (size_t c = 0; c < selections.size(); ++c) {
    const Key bits = Load<Key>(elements, static_cast<int64_t>(c));
    selections[c].Offer(map(bits), bits, static_cast<uint64_t>(index));
  }
}

/// Whether WriteSlice sorts on several threads, and so must be called inside
/// the backend's arena, which bounds them.
inline bool SortsInParallel(const Plan& plan) {
  constexpr int64_t kParallelSort = int64_t{1} << 15;
  return plan.k >= kParallelSort;
}

/// Puts the selected candidates into the plan's order.
template <class Key>
void Arrange(const Plan& plan, std::vector<Candidate<Key>>& best) {
  const auto sort = [&](auto before) {
    if (SortsInParallel(plan)) {
      tbb::parallel_sort(best.begin(), best.end(), before);
    } else {
      std::sort(best.begin(), best.end(), before);
    }
  };
  if (plan.order == Order::kValue) {
    sort(RanksBefore<Key>);
  } else {
    sort([](const auto& a, const auto& b) { return a.index < b.index; });
  }
}

/// Finishes a selection and writes its slice of the outputs.
template <class Key>
void WriteSlice(const Plan& plan, int64_t slice, Selection<Key>& selection,
                const Outputs& outputs) {
  std::vector<Candidate<Key>>& best = selection.Finish();
  Arrange(plan, best);
  const auto write = [&](const Layout& layout, std::span<std::byte> output,
                         int bytes, auto word) {
    const int64_t base = SliceOffset(plan, layout, slice);
    const int64_t stride = layout.strides[static_cast<size_t>(plan.axis)];
    for (size_t j = 0; j < best.size(); ++j) {
      const uint64_t bits = word(best[j]);
      const int64_t place = base + static_cast<int64_t>(j) * stride;
      std::memcpy(output.data() + place * bytes, &bits,
                  static_cast<size_t>(bytes));
    }
  };
  if (plan.wants_values) {
    write(plan.values, outputs.values, sizeof(Key),
          [](const Candidate<Key>& c) { return uint64_t{c.bits}; });
  }
  if (plan.wants_indices) {
    const auto offset = static_cast<uint64_t>(plan.index_offset);
    write(plan.indices, outputs.indices, InfoOf(plan.index_type).bytes,
          [offset](const Candidate<Key>& c) { return c.index + offset; });
  }
}

}  // namespace topk::cpu
