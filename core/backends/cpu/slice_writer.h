// Sorts the selected elements into the plan's order and writes the outputs.
#pragma once

#include <array>
#include <span>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/rank_sort.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/selection.h"
#include "core/base/elements.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Writes the outputs of slices: to their places or, if the schedule stages
/// outputs, to the rows of a buffer that has room for a tile. Reuses its memory
/// between slices. Not thread-safe. After a cancellation, slices may be
/// incomplete.
template <class Key>
class SliceWriter {
 public:
  /// `context` must outlive this object. If schedule.sort_pieces > 1, the
  /// caller must run in a oneTBB arena, which limits the number of threads.
  /// Throws std::bad_alloc.
  explicit SliceWriter(const ExecutionContext& context)
      : context_(context),
        plan_(context.plan),
        stages_(context.schedule.stages),
        pieces_(context.schedule.sort_pieces),
        cancellation_(context.cancellation),
        outputs_(context.outputs) {
    if (!stages_) return;
    const auto stage = [&](Scratch<std::byte>& memory, bool wanted,
                           DType type) {
      const int64_t bytes =
          context.schedule.tile * plan_.k * InfoOf(type).bytes;
      return memory.Get(wanted ? static_cast<size_t>(bytes) : 0);
    };
    outputs_ = {stage(staged_values_, plan_.wants_values, plan_.dtype),
                stage(staged_indices_, plan_.wants_indices, plan_.index_type)};
  }

  /// The buffer if outputs are staged, or the outputs of the context.
  const Outputs& outputs() const { return outputs_; }

  /// Returns the number in outputs() of slice `first` of the tensor, the first
  /// slice of a tile.
  int64_t NumberOf(int64_t first) const { return stages_ ? 0 : first; }

  /// Moves a tile of `width` slices from the buffer to its place. Does nothing
  /// if outputs are not staged.
  void FinishTile(int64_t first, int64_t width) const {
    if (!stages_) return;
    if (plan_.wants_values) {
      Move(plan_.dtype, plan_.values, first, width, outputs_.values.data(),
           context_.outputs.values.data());
    }
    if (plan_.wants_indices) {
      Move(plan_.index_type, plan_.indices, first, width,
           outputs_.indices.data(), context_.outputs.indices.data());
    }
  }

  /// Writes the k best elements of a selection to slice number `slice` in
  /// outputs(). REQUIRES: at least k elements were offered to the selection.
  void Write(int64_t slice, Selection<Key>& selection) {
    if (IsCancelled(cancellation_)) return;
    selection.Finish();
    const auto store_slot = [&selection](size_t slot, auto store) {
      store(selection.bits(slot), selection.index(slot));
    };
    if (plan_.order == Order::kIndex) {  // already in order
      StoreEach(slice, store_slot);
      return;
    }
    const std::span<const Ranked<Key>> ranked = RankSlots(
        plan_.k, [&selection](size_t slot) { return selection.key(slot); });
    if (ranked.empty()) return;  // cancelled
    StoreEach(slice, [ranked, store_slot](size_t j, auto store) {
      store_slot(ranked[j].slot, store);
    });
  }

  /// Sorts a whole contiguous row and writes the first k elements. REQUIRES:
  /// plan.order is kValue.
  template <bool kFloat>
  void WriteSorted(int64_t slice, const SortKeyEncoder<Key, kFloat>& encoder,
                   const std::byte* row) {
    const auto element = [row](size_t slot) {
      return Load<Key>(row, static_cast<int64_t>(slot));
    };
    const std::span<const Ranked<Key>> ranked = RankSlots(
        plan_.n,
        [element, encoder](size_t slot) { return encoder(element(slot)); });
    if (ranked.empty()) return;  // cancelled
    StoreEach(slice, [ranked, element, encoder](size_t j, auto store) {
      // If possible, compute the bits from the key, because loading the element
      // is likely to miss the cache.
      const auto slot = ranked[j].slot;
      const Key key = static_cast<Key>(~ranked[j].key);
      store(encoder.IsShared(key) ? element(slot) : encoder.Bits(key), slot);
    });
  }

  /// Writes the k elements of a slice in order. For each j = 0 .. k - 1, calls
  /// each(j, store), which must call store(bits, index) to write element j.
  template <class Each>
  void StoreEach(int64_t slice, const Each& each) const {
    if (InfoOf(plan_.index_type).bytes == 8) {
      StoreAs<uint64_t>(slice, each);
    } else {
      StoreAs<uint32_t>(slice, each);
    }
  }

 private:
  void Move(DType type, const Layout& layout, int64_t first, int64_t width,
            const std::byte* from, std::byte* to) const {
    const int bytes = InfoOf(type).bytes;
    const int64_t step = layout.strides[static_cast<size_t>(plan_.axis)];
    const int64_t adjacent = layout.contiguous && plan_.inner > 1 ? width : 1;
    const auto copy = [&](int64_t begin, int64_t end) {
      for (int64_t c = 0; c < width; c += adjacent) {
        const int64_t at = SliceOffset(plan_, layout, first + c) + begin * step;
        context_.set.table->transpose(
            bytes, from + (c * plan_.k + begin) * bytes, adjacent, end - begin,
            plan_.k, to + at * bytes, step);
      }
    };
    ForEachBlock(0, plan_.k, RowsPerBlock(width), cancellation_, copy);
  }

  // Returns the slots 0 .. count - 1 in rank order. `key_at` returns the key in
  // a slot. Returns an empty span if cancelled.
  template <class KeyAt>
  std::span<const Ranked<Key>> RankSlots(int64_t count, KeyAt key_at) {
    const std::span<Ranked<Key>> items = items_.Get(static_cast<size_t>(count));
    const auto item = [](Key key, size_t slot) {
      return Ranked<Key>{static_cast<Key>(~key), static_cast<uint32_t>(slot)};
    };
    if (count <= kMaxRankCount) {
      constexpr size_t kRoom = kMaxRankCount + kVectorBytes / sizeof(Key);
      alignas(kVectorBytes) std::array<Key, kRoom> keys = {};
      alignas(kVectorBytes) std::array<Key, kRoom> ranks;
      for (size_t i = 0; i < items.size(); ++i) keys[i] = key_at(i);
      context_.set.kernels<Key, false>().rank(keys.data(), count, ranks.data());
      for (size_t i = 0; i < items.size(); ++i) {
        items[static_cast<size_t>(ranks[i])] = item(keys[i], i);
      }
      return items;
    }
    const auto take = [items, item, key_at](int64_t, int64_t begin,
                                            int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end);
           ++i) {
        items[i] = item(key_at(i), i);
      }
    };
    if (!ForEachBlockOf(count, pieces_, cancellation_, take)) return {};
    return SortByRank<Key>(items, other_.Get(items.size()), pieces_,
                           cancellation_);
  }

  template <class Index, class Each>
  void StoreAs(int64_t slice, const Each& each) const {
    const auto store_block = [&](int64_t, int64_t begin, int64_t end) {
      // Use local copies, because byte stores may alias members.
      const auto store_rank = each;
      std::byte* const values =
          plan_.wants_values ? outputs_.values.data() : nullptr;
      std::byte* const indices =
          plan_.wants_indices ? outputs_.indices.data() : nullptr;
      const auto axis = static_cast<size_t>(plan_.axis);
      const auto step_of = [&](const Layout& layout) {
        return stages_ ? 1 : layout.strides[axis];
      };
      const auto position = [&](const Layout& layout) {
        return begin * step_of(layout) +
               (stages_ ? slice * plan_.k : SliceOffset(plan_, layout, slice));
      };
      const int64_t value_step = step_of(plan_.values);
      const int64_t index_step = step_of(plan_.indices);
      const auto offset = static_cast<uint64_t>(plan_.index_offset);
      int64_t value = position(plan_.values);
      int64_t index = position(plan_.indices);
      for (int64_t j = begin; j < end; ++j) {
        store_rank(static_cast<size_t>(j), [&](Key bits, uint64_t at) {
          if (values != nullptr) Store(values, value, bits);
          if (indices != nullptr) {
            Store(indices, index, static_cast<Index>(at + offset));
          }
        });
        value += value_step;
        index += index_step;
      }
    };
    ForEachBlockOf(plan_.k, pieces_, cancellation_, store_block);
  }

  const ExecutionContext& context_;
  const Plan& plan_;
  const bool stages_;
  const int64_t pieces_;
  const Cancellation* const cancellation_;
  Outputs outputs_;
  Scratch<std::byte> staged_values_;
  Scratch<std::byte> staged_indices_;
  Scratch<Ranked<Key>> items_;
  Scratch<Ranked<Key>> other_;
};

}  // namespace topk::cpu
