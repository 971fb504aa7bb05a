// Selects the best k elements of each slice. Reads slices as contiguous rows,
// either in place or copied (block_source.h).
//
// Algorithm: slices that are read in place, or whose copies fit in one block,
// are selected one after another. Longer slices are copied block by block, and
// each slice has its own selection. With several threads, a slice may be cut
// into pieces, each with a selection. Once all selections of a tile have a
// bound, the remaining elements of adjacent columns are compared with the
// bounds in place.
//
// Why: nearly all elements fail the comparison, and comparing takes half the
// time of copying. Without bounds, or with few columns, copying is faster.
//
// Tests: unit/long_slices_test.cc, conformance/.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "core/backends/cpu/block_source.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/base/deferred_free.h"

namespace topk::cpu {

/// Returns an upper bound on the keys of a type. For a sub-byte type, this is
/// the greatest key.
template <class Key, bool kFloat>
Key GreatestKey(const DTypeInfo& type,
                const SortKeyEncoder<Key, kFloat>& encoder) {
  if (!type.packed()) return static_cast<Key>(~Key{0});
  Key greatest = 0;
  const int step = 1 << (8 - type.bits);
  for (int bits = 0; bits < 256; bits += step) {
    greatest = std::max(greatest, encoder(static_cast<Key>(bits)));
  }
  return greatest;
}

/// Selects from tiles of slices, or from slices that arrive in parts. REQUIRES:
/// the algorithm is not kColumns.
template <class Key, bool kFloat>
class SliceRunner {
 public:
  /// `context` must outlive this object. At most `slices` slices have a
  /// selection at the same time.
  SliceRunner(const ExecutionContext& context, int64_t slices)
      : context_(context),
        plan_(context.plan),
        schedule_(context.schedule),
        slices_(slices),
        kernels_(context.set.kernels<Key, kFloat>()),
        encoder_(InfoOf(plan_.dtype), plan_.direction == Direction::kLargest),
        source_(context),
        feed_(kernels_, encoder_, plan_.k,
              GreatestKey(InfoOf(plan_.dtype), encoder_)),
        writer_(context) {}

  /// Runs a tile of `width` slices.
  void Do(int64_t first, int64_t width) {
    if (schedule_.block < plan_.n) return SelectInBlocks(first, width);
    const std::byte* rows = source_.Get(first, width, 0, plan_.n);
    if (cancelled()) return;
    const int64_t slice = writer_.NumberOf(first);
    if (schedule_.algorithm == Algorithm::kShortRows) {
      SelectShortRows(rows, slice, width);
    } else {
      for (int64_t c = 0; c < width && !cancelled(); ++c) {
        SelectRow(At<Key>(rows, c * plan_.n), slice + c);
      }
    }
    if (!cancelled()) writer_.FinishTile(first, width);
  }

  /// Adds the elements begin .. end - 1 of all slices with this outer index.
  /// Writes the results if `end` is n. REQUIRES: the elements arrive in order,
  /// and schedule.pieces is 1.
  void Feed(int64_t outer, int64_t begin, int64_t end) {
    const int64_t first = outer * plan_.inner;
    selections_.reserve(static_cast<size_t>(plan_.inner));
    for (int64_t c = 0; c < plan_.inner && !cancelled(); c += schedule_.tile) {
      const int64_t width = std::min(schedule_.tile, plan_.inner - c);
      FeedSlices(first + c, begin, end,
                 Selections(c + width).subspan(static_cast<size_t>(c)));
    }
    if (end < plan_.n) return;
    for (int64_t c = 0; c < plan_.inner && !cancelled(); ++c) {
      Write(first + c, c, plan_.inner);
    }
  }

 private:
  bool cancelled() const { return IsCancelled(context_.cancellation); }

  void SelectShortRows(const std::byte* elements, int64_t slice,
                       int64_t count) {
    const Outputs& outputs = writer_.outputs();
    const int index_bytes = InfoOf(plan_.index_type).bytes;
    const auto key_bytes = static_cast<int64_t>(sizeof(Key));
    const int64_t at = slice * plan_.k;
    const ShortRows<Key> rows = {
        elements,
        count,
        plan_.n,
        plan_.k,
        plan_.order == Order::kIndex,
        plan_.wants_values ? outputs.values.data() + at * key_bytes : nullptr,
        plan_.wants_indices ? outputs.indices.data() + at * index_bytes
                            : nullptr,
        index_bytes,
        static_cast<uint64_t>(plan_.index_offset)};
    for (int64_t begin = 0; begin < count; begin += kShortRowsAtOnce) {
      uint64_t left = kernels_.select_short_rows(encoder_, rows, begin);
      for (; left != 0; left &= left - 1) {
        const int64_t row = begin + std::countr_zero(left);
        SelectRow(At<Key>(elements, row * plan_.n), slice + row);
      }
    }
  }

  void SelectRow(const std::byte* row, int64_t slice) {
    if (schedule_.algorithm == Algorithm::kSort) {
      writer_.WriteSorted(slice, encoder_, row);
      return;
    }
    feed_.FeedRow({row, plan_.n, 0}, Selections(1));
    Write(slice, 0, 1);
  }

  // Selects from slices that do not fit into one block.
  void SelectInBlocks(int64_t first, int64_t width) {
    const std::span<Selection<Key>> selections = Selections(width);
    const int64_t pieces = schedule_.pieces;
    // Piece p has the selections p * width .. (p + 1) * width - 1.
    const auto of_piece = [&](int64_t p) {
      return selections.subspan(static_cast<size_t>(p * width),
                                static_cast<size_t>(width));
    };
    const auto feed = [&](int64_t p) {
      const auto feed_piece = [&](SliceRunner& runner) {
        runner.FeedSlices(first, p * plan_.n / pieces,
                          (p + 1) * plan_.n / pieces, of_piece(p));
      };
      if (p == 0) return feed_piece(*this);
      // Each piece needs its own memory.
      SliceRunner own(context_, slices_);
      feed_piece(own);
    };
    if (!ForEachPiece(pieces, context_.cancellation, feed)) return;
    for (int64_t c = 0; c < width && !cancelled(); ++c) {
      Write(first + c, c, width);
    }
  }

  // Feeds the elements begin .. end - 1 of adjacent slices, starting with slice
  // `first`, to the selection of each slice. Unless the columns are read in
  // place, stops once all selections have k elements with the greatest possible
  // key.
  void FeedSlices(int64_t first, int64_t begin, int64_t end,
                  std::span<Selection<Key>> selections) {
    const auto width = static_cast<int64_t>(selections.size());
    const int64_t block = schedule_.block;
    // Keep the first block short. If k of its elements have the greatest
    // possible key, the rest of the slice need not be read.
    int64_t size =
        begin == 0 && block < plan_.n ? std::max(block / 8, int64_t{1}) : block;
    while (begin < end && !cancelled()) {
      if (LoadBounds(selections)) {
        return FeedInPlace(first, begin, end, selections);
      }
      const int64_t next = std::min(begin + size, end);
      const std::byte* rows = source_.Get(first, width, begin, next);
      if (cancelled()) return;
      bool done = true;
      for (int64_t c = 0; c < width; ++c) {
        Selection<Key>& selection = selections[static_cast<size_t>(c)];
        const std::byte* row = At<Key>(rows, c * (next - begin));
        feed_.Feed({row, next - begin, begin}, selection);
        done &= feed_.IsComplete(selection);
      }
      if (done) return;
      begin = next;
      size = block;
    }
  }

  // Sets bounds_ for FeedInPlace(). Returns false if columns must be copied.
  bool LoadBounds(std::span<const Selection<Key>> selections) {
    // Narrower blocks are copied.
    constexpr size_t kMinColumns = 32;
    // Copying 1-byte elements is cheap and allows FeedSlices() to stop early.
    if (selections.size() < kMinColumns || !plan_.input.contiguous ||
        plan_.inner == 1 || sizeof(Key) == 1) {
      return false;
    }
    bounds_.resize(selections.size());
    columns_.resize(selections.size() + kScanSlack);
    for (size_t c = 0; c < selections.size(); ++c) {
      if (!selections[c].bound()) return false;
      bounds_[c] = *selections[c].bound();
    }
    return true;
  }

  void FeedInPlace(int64_t first, int64_t begin, int64_t end,
                   std::span<Selection<Key>> selections) {
    const auto width = static_cast<int64_t>(selections.size());
    const auto encoder = encoder_;  // local copy: stores may alias members
    const int64_t offset = SliceOffset(plan_, plan_.input, first);
    const auto feed_rows = [&](int64_t low, int64_t high) {
      const std::byte* const rows = context_.at(offset + low * plan_.inner);
      for (int64_t i = low; i < high; ++i) {
        const std::byte* const row = At<Key>(rows, (i - low) * plan_.inner);
        const int64_t found = kernels_.scan_columns(
            encoder, row, width, bounds_.data(), columns_.data());
        for (int64_t j = 0; j < found; ++j) {
          const size_t column = columns_[static_cast<size_t>(j)];
          const Key bits = Load<Key>(row, static_cast<int64_t>(column));
          selections[column].Offer(encoder(bits), bits,
                                   static_cast<uint64_t>(i));
          bounds_[column] = *selections[column].bound();
        }
      }
    };
    ForEachBlock(begin, end, std::max(kBlockElements / width, int64_t{1}),
                 context_.cancellation, feed_rows);
  }

  // Returns the selections for `count` slices: for each piece, one per slice.
  std::span<Selection<Key>> Selections(int64_t count) {
    const auto size = static_cast<size_t>(count * schedule_.pieces);
    const bool many = schedule_.selections(plan_) > 1;
    const auto capacity =
        static_cast<size_t>(SelectionCapacity(plan_.k, plan_.n, many));
    const size_t candidates =
        static_cast<size_t>(slices_ * schedule_.pieces) * capacity;
    const std::span keys = keys_.Get(candidates);
    const std::span elements = elements_.Get(candidates);
    while (selections_.size() < size) {
      const size_t at = selections_.size() * capacity;
      selections_.emplace_back(
          kernels_.kth, plan_.k, keys.subspan(at, capacity),
          elements.subspan(at, capacity), context_.cancellation);
    }
    return std::span(selections_).first(size);
  }

  // Merges the selections of slice number `number` out of `count`, one per
  // piece, and writes the result to output slice `slice`.
  void Write(int64_t slice, int64_t number, int64_t count) {
    Selection<Key>& selection = selections_[static_cast<size_t>(number)];
    for (int64_t p = 1; p < schedule_.pieces; ++p) {
      selection.Merge(selections_[static_cast<size_t>(p * count + number)]);
    }
    writer_.Write(slice, selection);
    selection.Reset();
  }

  const ExecutionContext& context_;
  const Plan& plan_;
  const Schedule& schedule_;
  const int64_t slices_;
  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat> encoder_;
  BlockSource source_;
  RowFeed<Key, kFloat> feed_;
  // The candidates of all selections.
  Scratch<Key> keys_;
  Scratch<typename Selection<Key>::Element> elements_;
  std::vector<Selection<Key>, DeferredFreeAllocator<Selection<Key>>>
      selections_;
  // The bounds of the columns in FeedInPlace(), and the columns that a scan
  // finds.
  std::vector<Key> bounds_;
  std::vector<uint32_t> columns_;
  SliceWriter<Key> writer_;
};

}  // namespace topk::cpu
