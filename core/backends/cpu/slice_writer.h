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

/// Writes the outputs of slices as rows of k elements: directly to the outputs
/// or, unless WritesRows(plan), to a buffer that has room for a tile. Reuses
/// its memory between slices. Not thread-safe. After a cancellation, slices may
/// be incomplete.
template <class Key>
class SliceWriter {
 public:
  /// `context` must outlive this object. If schedule.sort_pieces > 1, the
  /// caller must run in a oneTBB arena, which limits the number of threads.
  /// Throws std::bad_alloc.
  explicit SliceWriter(const ExecutionContext& context)
      : context_(context),
        plan_(context.plan),
        buffers_(!WritesRows(plan_)),
        wide_indices_(InfoOf(plan_.index_type).bytes == 8),
        pieces_(context.schedule.sort_pieces),
        cancellation_(context.cancellation) {}

  /// Starts a tile. Returns the number of the row for slice `first`, the first
  /// slice of the tile. The next slices have the next rows.
  int64_t StartTile(int64_t first) {
    values_ = plan_.wants_values
                  ? RowsOf(plan_.dtype, context_.outputs.values, value_buffer_)
                  : nullptr;
    indices_ =
        plan_.wants_indices
            ? RowsOf(plan_.index_type, context_.outputs.indices, index_buffer_)
            : nullptr;
    return buffers_ ? 0 : first;
  }

  /// Returns the address of a row's values, or null if they are not wanted.
  std::byte* values(int64_t row) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Key));
    return values_ == nullptr ? nullptr : values_ + row * plan_.k * kBytes;
  }
  /// Returns the address of a row's indices, or null if they are not wanted.
  std::byte* indices(int64_t row) const {
    const int64_t bytes = wide_indices_ ? 8 : 4;
    return indices_ == nullptr ? nullptr : indices_ + row * plan_.k * bytes;
  }

  /// Completes a tile of `width` slices: moves the rows from the buffer, if
  /// there is one, to the outputs.
  void FinishTile(int64_t first, int64_t width) const {
    if (!buffers_) return;
    if (plan_.wants_values) {
      Move(plan_.dtype, plan_.values, first, width, values_,
           context_.outputs.values.data());
    }
    if (plan_.wants_indices) {
      Move(plan_.index_type, plan_.indices, first, width, indices_,
           context_.outputs.indices.data());
    }
  }

  /// Writes the k best elements of a selection. REQUIRES: at least k elements
  /// were offered to the selection.
  void Write(int64_t row, Selection<Key>& selection) {
    if (IsCancelled(cancellation_)) return;
    selection.Finish();
    const Candidate<Key>* const best = selection.candidates();
    if (plan_.order == Order::kIndex) {  // already in order
      return WriteRow(row, [best](size_t j) { return best[j]; });
    }
    const std::span<const Ranked<Key>> ranked = RankSlots(
        plan_.k, [keys = selection.keys()](size_t slot) { return keys[slot]; });
    if (ranked.empty()) return;  // cancelled
    WriteRow(row, [ranked, best](size_t j) { return best[ranked[j].slot]; });
  }

  /// Sorts a whole contiguous slice and writes the first k elements. REQUIRES:
  /// plan.order is kValue.
  template <bool kFloat>
  void WriteSorted(int64_t row, const SortKeyEncoder<Key, kFloat>& encoder,
                   const std::byte* slice) {
    const auto bits_at = [slice](size_t slot) {
      return Load<Key>(slice, static_cast<int64_t>(slot));
    };
    const std::span<const Ranked<Key>> ranked = RankSlots(
        plan_.n,
        [bits_at, encoder](size_t slot) { return encoder(bits_at(slot)); });
    if (ranked.empty()) return;  // cancelled
    WriteRow(row, [ranked, bits_at, encoder](size_t j) {
      // If possible, compute the bits from the key, because loading the element
      // is likely to miss the cache.
      const auto slot = ranked[j].slot;
      const Key key = static_cast<Key>(~ranked[j].key);
      return Candidate<Key>{
          encoder.IsShared(key) ? bits_at(slot) : encoder.Bits(key), slot};
    });
  }

  /// Writes the elements at(0) ... at(k - 1), which are Candidate<Key>.
  template <class At>
  void WriteRow(int64_t row, const At& at) const {
    const auto write_block = [&](int64_t, int64_t begin, int64_t end) {
      // Use local copies, because byte stores may alias members.
      const At candidate_at = at;
      std::byte* const values = this->values(row);
      std::byte* const indices = this->indices(row);
      const auto offset = static_cast<uint64_t>(plan_.index_offset);
      const bool wide = wide_indices_;
      for (int64_t j = begin; j < end; ++j) {
        const Candidate<Key> found = candidate_at(static_cast<size_t>(j));
        const uint64_t index = found.index + offset;
        if (values != nullptr) Store(values, j, found.bits);
        if (indices == nullptr) continue;
        if (wide) {
          Store(indices, j, index);
        } else {
          Store(indices, j, static_cast<uint32_t>(index));
        }
      }
    };
    ForEachBlockOf(plan_.k, pieces_, cancellation_, write_block);
  }

 private:
  // Returns where to write the rows of an output: to the output itself, or to a
  // buffer.
  std::byte* RowsOf(DType type, std::span<std::byte> output,
                    Scratch<std::byte>& buffer) const {
    if (!buffers_) return output.data();
    const int64_t bytes = context_.schedule.tile * plan_.k * InfoOf(type).bytes;
    return buffer.Get(static_cast<size_t>(bytes)).data();
  }

  void Move(DType type, const Layout& layout, int64_t first, int64_t width,
            const std::byte* from, std::byte* to) const {
    const int bytes = InfoOf(type).bytes;
    const int64_t step = layout.strides[static_cast<size_t>(plan_.axis)];
    const int64_t adjacent = layout.contiguous && plan_.inner > 1 ? width : 1;
    const auto copy = [&](int64_t begin, int64_t end) {
      for (int64_t c = 0; c < width; c += adjacent) {
        const int64_t at = SliceOffset(plan_, layout, first + c) + begin * step;
        context_.set.transpose(bytes, from + (c * plan_.k + begin) * bytes,
                               adjacent, end - begin, plan_.k, to + at * bytes,
                               step);
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

  const ExecutionContext& context_;
  const Plan& plan_;
  const bool buffers_;
  const bool wide_indices_;
  const int64_t pieces_;
  const Cancellation* const cancellation_;
  Scratch<std::byte> value_buffer_;
  Scratch<std::byte> index_buffer_;
  std::byte* values_ = nullptr;
  std::byte* indices_ = nullptr;
  Scratch<Ranked<Key>> items_;
  Scratch<Ranked<Key>> other_;
};

}  // namespace topk::cpu
