// Puts what was selected into the plan's order and into the outputs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "core/backends/backend.h"
#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/rank_sort.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/selection.h"
#include "core/base/checked.h"
#include "core/base/elements.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Writes slices; keeps its memory between them. Not thread-safe.
template <class Key>
class SliceWriter {
 public:
  /// All outlive this. A slice is sorted in `pieces` side by side: if there are
  /// several, inside the backend's arena, which bounds the threads. Once
  /// cancelled (null = never) slices are written in part or not at all.
  template <bool kFloat>
  SliceWriter(const Plan& plan, const Outputs& outputs,
              const Kernels<Key, kFloat>& kernels, int64_t pieces,
              const Cancellation* cancellation)
      : plan_(plan),
        outputs_(outputs),
        rank_(kernels.rank),
        pieces_(pieces),
        cancellation_(cancellation) {}

  /// Upper bound on the memory of a writer that sorts `count` elements at
  /// once, in `pieces`, in bytes.
  static Size Bytes(const Plan& plan, int64_t count, int64_t pieces) {
    if (count <= kMaxRankCount) return 0;
    const Size slots = plan.order == Order::kIndex ? Size(plan.k) * 4 : 0;
    return 2 * Size(count) * sizeof(Ranked<Key>) + slots + count / 8 + 8 +
           SortBytes(count, pieces);
  }

  /// Writes the k best of a selection. REQUIRES: it was offered k.
  void Write(int64_t slice, Selection<Key>& selection) {
    if (IsCancelled(cancellation_)) return;
    selection.Finish();
    const auto k = static_cast<size_t>(plan_.k);
    if (plan_.order == Order::kIndex) {  // as they are
      StoreEach(slice, [&](size_t j, auto store) {
        store(selection.bits(j), selection.index(j));
      });
      return;
    }
    if (plan_.k <= kMaxRankCount) {
      WriteFew(slice, selection);
      return;
    }
    const std::span<Ranked<Key>> items = items_.Get(k);
    const auto take = [&](int64_t begin, int64_t end) {
      for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end);
           ++j) {
        items[j] = {static_cast<Key>(~selection.key(j)),
                    static_cast<uint32_t>(j)};
      }
    };
    if (!ForEachBlock(0, plan_.k, kBlockElements, cancellation_, take)) return;
    const auto ranked = Sort(items);
    if (ranked.empty()) return;  // cancelled
    StoreEach(slice, [&](size_t j, auto store) {
      const size_t slot = ranked[j].slot;
      store(selection.bits(slot), selection.index(slot));
    });
  }

  /// Sorts a whole row of n elements, which lie together, and writes the k
  /// first.
  template <bool kFloat>
  void WriteSorted(int64_t slice, const SortKeyEncoder<Key, kFloat>& encoder,
                   const std::byte* row) {
    const auto element = [row](int64_t i) { return Load<Key>(row, i); };
    if (plan_.n <= kMaxRankCount && plan_.order == Order::kValue) {
      Ranks ranks;
      for (int64_t i = 0; i < plan_.n; ++i) {
        ranks.keys[static_cast<size_t>(i)] = encoder(element(i));
      }
      const auto slots = ranks.Slots(rank_, plan_.n);
      StoreEach(slice, [&](size_t j, auto store) {
        store(element(slots[j]), slots[j]);
      });
      return;
    }
    const auto items = items_.Get(static_cast<size_t>(plan_.n));
    const auto take = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto slot = static_cast<uint32_t>(i);
        items[slot] = {static_cast<Key>(~encoder(element(slot))), slot};
      }
    };
    if (!ForEachBlockOf(plan_.n, take)) return;
    const auto ranked = Sort(items);
    if (ranked.empty()) return;  // cancelled
    const auto store_ranked = [&](size_t j, auto store) {
      // From the key where it tells: the row's own element is far away.
      const Key key = static_cast<Key>(~ranked[j].key);
      const uint32_t slot = ranked[j].slot;
      store(encoder.IsShared(key) ? element(slot) : encoder.Bits(key), slot);
    };
    if (plan_.order == Order::kValue) {
      StoreEach(slice, store_ranked);
      return;
    }
    const auto slots = Ascending(ranked.first(static_cast<size_t>(plan_.k)));
    if (slots.empty()) return;  // cancelled
    StoreEach(slice, [&](size_t j, auto store) {
      store(element(slots[j]), slots[j]);
    });
  }

 private:
  // Up to kMaxRankCount keys, put into order by counting.
  struct Ranks {
    static constexpr size_t kRoom = kMaxRankCount + kVectorBytes / sizeof(Key);
    alignas(kVectorBytes) std::array<Key, kRoom> keys = {};

    // Returns the slots of the first `count` keys by rank.
    std::array<uint8_t, kMaxRankCount> Slots(void (*rank)(const Key*, int64_t,
                                                          Key*),
                                             int64_t count) const {
      alignas(kVectorBytes) std::array<Key, kRoom> ranks;
      rank(keys.data(), count, ranks.data());
      std::array<uint8_t, kMaxRankCount> slots;
      for (size_t j = 0; j < static_cast<size_t>(count); ++j) {
        slots[static_cast<size_t>(ranks[j])] = static_cast<uint8_t>(j);
      }
      return slots;
    }
  };

  void WriteFew(int64_t slice, const Selection<Key>& selection) const {
    Ranks ranks;
    for (size_t j = 0; j < static_cast<size_t>(plan_.k); ++j) {
      ranks.keys[j] = selection.key(j);
    }
    const auto slots = ranks.Slots(rank_, plan_.k);
    StoreEach(slice, [&](size_t j, auto store) {
      store(selection.bits(slots[j]), selection.index(slots[j]));
    });
  }

  std::span<const Ranked<Key>> Sort(std::span<Ranked<Key>> items) {
    return SortByRank<Key>(items, other_.Get(items.size()), pieces_,
                           cancellation_);
  }

  // Returns the slots of a row's items in ascending order: a bit for each
  // element of the row is set, and they are read from the first on. Empty if
  // cancelled.
  std::span<const uint32_t> Ascending(std::span<const Ranked<Key>> items) {
    constexpr int64_t kWordBits = 64;
    const int64_t words = plan_.n / kWordBits + 1;
    const auto bits = bits_.Get(static_cast<size_t>(words));
    const auto slots = slots_.Get(items.size());
    size_t next = 0;
    const auto clear = [&](int64_t begin, int64_t end) {
      std::fill(bits.begin() + begin, bits.begin() + end, uint64_t{0});
    };
    const auto set = [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const uint32_t slot = items[static_cast<size_t>(j)].slot;
        bits[slot / kWordBits] |= uint64_t{1} << slot % kWordBits;
      }
    };
    const auto read = [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        for (uint64_t word = bits[static_cast<size_t>(w)]; word != 0;
             word &= word - 1) {
          slots[next++] =
              static_cast<uint32_t>(w * kWordBits + std::countr_zero(word));
        }
      }
    };
    const auto in_blocks = [this](int64_t count, const auto& fn) {
      return ForEachBlock(0, count, kBlockElements, cancellation_, fn);
    };
    if (!in_blocks(words, clear) ||
        !in_blocks(static_cast<int64_t>(items.size()), set) ||
        !in_blocks(words, read)) {
      return {};
    }
    return slots;
  }

  // Calls fn(begin, end) on blocks of [0, count), in pieces side by side.
  // Returns whether all was done, which it is unless cancelled.
  template <class Fn>
  bool ForEachBlockOf(int64_t count, const Fn& fn) const {
    return ForEachPiece(pieces_, cancellation_, [&](int64_t p) {
      ForEachBlock(p * count / pieces_, (p + 1) * count / pieces_,
                   kBlockElements, cancellation_, fn);
    });
  }

  // Calls each(j, store) for j = 0 .. k - 1, which calls store(bits, index).
  template <class Each>
  void StoreEach(int64_t slice, const Each& each) const {
    if (InfoOf(plan_.index_type).bytes == 8) {
      StoreAs<uint64_t>(slice, each);
    } else {
      StoreAs<uint32_t>(slice, each);
    }
  }

  template <class Index, class Each>
  void StoreAs(int64_t slice, const Each& each) const {
    const auto axis = static_cast<size_t>(plan_.axis);
    const int64_t value_stride = plan_.values.strides[axis];
    const int64_t index_stride = plan_.indices.strides[axis];
    const auto offset = static_cast<uint64_t>(plan_.index_offset);
    const int64_t value_base = SliceOffset(plan_, plan_.values, slice);
    const int64_t index_base = SliceOffset(plan_, plan_.indices, slice);
    ForEachBlockOf(plan_.k, [&](int64_t begin, int64_t end) {
      // A block's own, which no byte that is stored can overwrite.
      std::byte* const values =
          plan_.wants_values ? outputs_.values.data() : nullptr;
      std::byte* const indices =
          plan_.wants_indices ? outputs_.indices.data() : nullptr;
      const auto by = offset;
      const int64_t value_step = value_stride;
      const int64_t index_step = index_stride;
      int64_t value = value_base + begin * value_step;
      int64_t index = index_base + begin * index_step;
      for (int64_t j = begin; j < end; ++j) {
        each(static_cast<size_t>(j), [&](Key bits, uint64_t at) {
          if (values != nullptr) Store(values, value, bits);
          if (indices != nullptr) {
            Store(indices, index, static_cast<Index>(at + by));
          }
        });
        value += value_step;
        index += index_step;
      }
    });
  }

  const Plan& plan_;
  const Outputs& outputs_;
  void (*const rank_)(const Key*, int64_t, Key*);
  const int64_t pieces_;
  const Cancellation* const cancellation_;
  Scratch<Ranked<Key>> items_;
  Scratch<Ranked<Key>> other_;
  Scratch<uint64_t> bits_;
  Scratch<uint32_t> slots_;
};

}  // namespace topk::cpu
