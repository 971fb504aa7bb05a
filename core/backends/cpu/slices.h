// Selects the best k elements of each slice. Reads slices as contiguous rows,
// either in place or copied block by block (block_source.h).
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/backends/cpu/block_feed.h"
#include "core/backends/cpu/run_context.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/base/deferred_free.h"

namespace topk::cpu {

/// Selects from tiles of slices, or from slices that arrive in parts. REQUIRES:
/// the algorithm is neither kNothing nor kColumns.
template <class Key, bool kFloat>
class SliceRunner {
 public:
  explicit SliceRunner(const RunContext<Key, kFloat>& run)
      : run_(run),
        plan_(run.plan),
        schedule_(run.schedule),
        n_(DistinctElements(plan_)),
        staged_(IsStaged(plan_, schedule_)),
        tile_plan_(staged_ ? std::optional(RowsOfTile(plan_, schedule_.tile))
                           : std::nullopt),
        outputs_(run.outputs),
        feed_(run),
        writer_(staged_ ? *tile_plan_ : plan_, outputs_, run.kernels,
                schedule_.sort_pieces, run.cancellation) {
    if (staged_) {
      outputs_ = {Stage(values_, plan_.wants_values, tile_plan_->values),
                  Stage(indices_, plan_.wants_indices, tile_plan_->indices)};
    }
  }

  ~SliceRunner() {
    constexpr int64_t kLarge = int64_t{16} << 20;  // 2 ms
    if (selections_.empty()) return;
    const Size bytes = SelectionBytes(plan_, schedule_, selections_.size());
    if (bytes < kLarge) return;
    using Selected = decltype(selections_);
    DeferFree(std::unique_ptr<Selected>(new (std::nothrow)
                                            Selected(std::move(selections_))),
              static_cast<size_t>(bytes.value()));
  }

  /// Returns an upper bound on the memory that a runner uses, in bytes. `folds`
  /// is true if the caller uses Feed(), and false if the caller uses Do().
  static Size Bytes(const Plan& plan, const Schedule& schedule,
                    bool folds = false) {
    const int64_t n = DistinctElements(plan);
    const bool sorts = schedule.algorithm == Algorithm::kSort;
    const int64_t readers = schedule.block < n ? schedule.pieces : 1;
    Size bytes =
        SliceWriter<Key>::Bytes(sorts ? n : plan.k, schedule.sort_pieces);
    if (schedule.copies || !sorts) {
      bytes += readers * BlockFeed<Key, kFloat>::Bytes(plan, schedule, n);
    }
    if (IsStaged(plan, schedule)) {
      const Plan rows = RowsOfTile(plan, schedule.tile);
      bytes += Size(rows.values.bytes) + rows.indices.bytes;
    }
    if (sorts) return bytes;
    const int64_t slices = folds                ? plan.inner
                           : schedule.block < n ? schedule.tile
                                                : 1;
    return bytes +
           SelectionBytes(plan, schedule, Size(schedule.pieces) * slices);
  }

  /// Runs a tile of `width` slices.
  void Do(int64_t first, int64_t width) {
    if (schedule_.block < n_) {
      SelectInBlocks(first, width);
    } else {
      SelectWhole(first, width);
    }
  }

  /// Adds the elements begin .. end - 1 of all slices with this outer index.
  /// Writes the results if `end` is n. REQUIRES: the elements arrive in order,
  /// and schedule.pieces is 1.
  void Feed(int64_t outer, int64_t begin, int64_t end) {
    const int64_t first = outer * plan_.inner;
    selections_.reserve(static_cast<size_t>(plan_.inner));
    for (int64_t c = 0; c < plan_.inner && !cancelled(); c += schedule_.tile) {
      const int64_t width = std::min(schedule_.tile, plan_.inner - c);
      feed_.Feed(first + c, width, begin, end, &Selections(c + width)[c], 1);
    }
    if (end < n_) return;
    for (int64_t c = 0; c < plan_.inner && !cancelled(); ++c) {
      Write(first + c, c);
    }
  }

 private:
  using Span = std::span<std::byte>;

  bool cancelled() const { return IsCancelled(run_.cancellation); }

  // Returns whether a tile's outputs are first buffered as rows and then moved
  // to their places. The short-rows kernel can write only rows. For other tiles
  // of whole slices, moving all outputs in one pass is faster.
  static bool IsStaged(const Plan& plan, const Schedule& schedule) {
    const bool rows =
        plan.inner == 1 && plan.values.contiguous && plan.indices.contiguous;
    const bool whole =
        schedule.copies && schedule.block >= DistinctElements(plan);
    return !rows && (whole || schedule.algorithm == Algorithm::kShortRows);
  }

  static int64_t Slack(const Plan& plan, const Schedule& schedule) {
    return SlackFor(
        plan.k, schedule.tile > 1 && schedule.block < DistinctElements(plan));
  }

  static Size SelectionBytes(const Plan& plan, const Schedule& schedule,
                             Size count) {
    return count * Selection<Key>::Bytes(plan.k, Slack(plan, schedule),
                                         DistinctElements(plan));
  }

  static Span Stage(Scratch<std::byte>& memory, bool wanted,
                    const Layout& layout) {
    return memory.Get(wanted ? static_cast<size_t>(layout.bytes) : 0);
  }

  void SelectWhole(int64_t first, int64_t width) {
    const std::byte* rows = feed_.source().Get(first, width, 0, n_);
    if (cancelled()) return;
    const int64_t slice = staged_ ? 0 : first;
    if (schedule_.algorithm == Algorithm::kShortRows) {
      SelectShortRows(rows, slice, width);
    } else {
      for (int64_t c = 0; c < width && !cancelled(); ++c) {
        SelectRow(At<Key>(rows, c * n_), slice + c);
      }
    }
    if (!staged_ || cancelled()) return;
    if (plan_.wants_values) {
      Unstage(run_.kernels, plan_.values, first, width, outputs_.values,
              run_.outputs.values);
    }
    if (!plan_.wants_indices) return;
    const auto unstage = [&](const auto& kernels) {
      Unstage(kernels, plan_.indices, first, width, outputs_.indices,
              run_.outputs.indices);
    };
    if (InfoOf(plan_.index_type).bytes == 8) {
      unstage(run_.set.template kernels<uint64_t, false>());
    } else {
      unstage(run_.set.template kernels<uint32_t, false>());
    }
  }

  void SelectShortRows(const std::byte* elements, int64_t slice,
                       int64_t count) {
    const int index_bytes = InfoOf(plan_.index_type).bytes;
    const auto key_bytes = static_cast<int64_t>(sizeof(Key));
    const int64_t at = slice * plan_.k;
    const ShortRows<Key> rows = {
        elements,
        count,
        n_,
        plan_.k,
        plan_.order == Order::kIndex,
        plan_.wants_values ? outputs_.values.data() + at * key_bytes : nullptr,
        plan_.wants_indices ? outputs_.indices.data() + at * index_bytes
                            : nullptr,
        index_bytes,
        static_cast<uint64_t>(plan_.index_offset)};
    for (int64_t begin = 0; begin < count; begin += kShortRowsAtOnce) {
      uint64_t left = run_.kernels.select_short_rows(run_.encoder, rows, begin);
      for (; left != 0; left &= left - 1) {
        const int64_t row = begin + std::countr_zero(left);
        SelectRow(At<Key>(elements, row * n_), slice + row);
      }
    }
  }

  void SelectRow(const std::byte* row, int64_t slice) {
    if (schedule_.algorithm == Algorithm::kSort) {
      writer_.WriteSorted(slice, run_.encoder, row);
      return;
    }
    feed_.row_feed().Feed({row, n_, 0}, Selections(1), &hint_);
    Write(slice, 0);
  }

  // Selects from slices that do not fit into one block.
  void SelectInBlocks(int64_t first, int64_t width) {
    Selections(width);
    const int64_t pieces = schedule_.pieces;
    int64_t begin = 0;
    const auto feed = [&](int64_t p) {
      const auto feed_piece = [&](BlockFeed<Key, kFloat>& piece) {
        piece.Feed(first, width, begin + p * (n_ - begin) / pieces,
                   begin + (p + 1) * (n_ - begin) / pieces,
                   &selections_[static_cast<size_t>(p)], pieces);
      };
      if (p == 0) return feed_piece(feed_);  // reuses its memory
      BlockFeed<Key, kFloat> other(run_);
      feed_piece(other);
    };
    // The selection from a sub-byte slice is often complete after the first
    // block. Read this block before any other thread starts.
    bool done = false;
    if (pieces > 1 && InfoOf(plan_.dtype).packed()) {
      begin = schedule_.block;
      done = feed_.Feed(first, width, 0, begin, selections_.data(), pieces);
    }
    if (!done && !ForEachPiece(pieces, run_.cancellation, feed)) return;
    for (int64_t c = 0; c < width && !cancelled(); ++c) Write(first + c, c);
  }

  // Returns the selections for `count` slices: for each slice, one per piece.
  std::span<Selection<Key>> Selections(int64_t count) {
    const auto size = static_cast<size_t>(count * schedule_.pieces);
    while (selections_.size() < size) {
      selections_.emplace_back(run_.kernels.kth, plan_.k,
                               Slack(plan_, schedule_), n_, run_.cancellation);
    }
    return std::span(selections_).first(size);
  }

  // Merges the selections of one slice and writes the result to output slice
  // `slice`. The selections begin at selections_[number * pieces].
  void Write(int64_t slice, int64_t number) {
    const int64_t pieces = schedule_.pieces;
    const auto selections = std::span(selections_)
                                .subspan(static_cast<size_t>(number * pieces),
                                         static_cast<size_t>(pieces));
    for (size_t s = 1; s < selections.size(); ++s) {
      selections[0].Merge(selections[s]);
    }
    writer_.Write(slice, selections[0]);
    selections[0].Reset();
  }

  // Copies buffered values or indices to slices `first` to `first + width - 1`.
  template <class T, bool kIsFloat>
  void Unstage(const Kernels<T, kIsFloat>& kernels, const Layout& layout,
               int64_t first, int64_t width, Span from, Span to) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    const int64_t step = layout.strides[static_cast<size_t>(plan_.axis)];
    const auto copy = [&](int64_t begin, int64_t end) {
      if (layout.contiguous && plan_.inner > 1) {
        const int64_t at =
            SliceOffset(plan_, layout, first) + begin * plan_.inner;
        kernels.transpose(from.data() + begin * kBytes, width, end - begin,
                          plan_.k, to.data() + at * kBytes, plan_.inner);
        return;
      }
      for (int64_t c = 0; c < width; ++c) {
        const int64_t at = SliceOffset(plan_, layout, first + c);
        for (int64_t j = begin; j < end; ++j) {
          Store(to.data(), at + j * step,
                Load<T>(from.data(), c * plan_.k + j));
        }
      }
    };
    ForEachBlock(0, plan_.k, RowsPerBlock(width), run_.cancellation, copy);
  }

  const RunContext<Key, kFloat>& run_;
  const Plan& plan_;
  const Schedule& schedule_;
  const int64_t n_;
  const bool staged_;
  const std::optional<Plan> tile_plan_;
  Outputs outputs_;
  Scratch<std::byte> values_;
  Scratch<std::byte> indices_;
  BlockFeed<Key, kFloat> feed_;
  Hint<Key> hint_;
  std::vector<Selection<Key>> selections_;
  SliceWriter<Key> writer_;
};

}  // namespace topk::cpu
