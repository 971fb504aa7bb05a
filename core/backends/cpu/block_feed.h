// Feeds adjacent slices, one block at a time, to one selection per slice.
//
// Algorithm: a block is copied to rows (block_source.h), and each row is fed to
// its selection. Once all selections have a bound, the remaining elements of
// adjacent columns are compared with the bounds in place.
//
// Why: nearly all elements fail the comparison, and comparing takes half the
// time of copying. Without bounds, or with few columns, copying is faster.
//
// Tests: unit/long_slices_test.cc, conformance/.
#pragma once

#include <algorithm>
#include <vector>

#include "core/backends/cpu/block_source.h"
#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/run_context.h"

namespace topk::cpu {

/// Feeds adjacent slices, each to its own selection. Not thread-safe.
template <class Key, bool kFloat>
class BlockFeed {
 public:
  /// `run` must outlive this object.
  explicit BlockFeed(const RunContext<Key, kFloat>& run)
      : run_(run),
        source_(run),
        feed_(run.kernels, run.encoder, run.plan.k,
              FirstKey(InfoOf(run.plan.dtype), run.encoder)) {}

  /// Returns an upper bound on the memory for slices of `n` elements, in bytes.
  static Size Bytes(const Plan& plan, const Schedule& schedule, int64_t n) {
    const Size block = Size(schedule.tile) * std::min(schedule.block, n);
    return (schedule.copies ? BlockSource<Key, kFloat>::Bytes(plan, block)
                            : Size(0)) +
           RowFeed<Key, kFloat>::Bytes(
               n, plan.k, schedule.block < n ? 1 : schedule.pieces) +
           Size(schedule.tile) * sizeof(Key) +
           Size(schedule.tile + kScanSlack) * sizeof(uint32_t);
  }

  BlockSource<Key, kFloat>& source() { return source_; }
  RowFeed<Key, kFloat>& row_feed() { return feed_; }

  /// Feeds the elements begin .. end - 1 of `width` slices, starting with slice
  /// `first`, to their selections. Slice first + c uses selections[c * step].
  /// Returns true if all selections have k elements with the greatest possible
  /// key, so that the later elements of these slices can be skipped.
  bool Feed(int64_t first, int64_t width, int64_t begin, int64_t end,
            Selection<Key>* selections, int64_t step) {
    const int64_t block = run_.schedule.block;
    // Keep the first block short. If k of its elements have the greatest
    // possible key, the rest of the slice need not be read.
    int64_t size = begin == 0 && block < run_.plan.n
                       ? std::max(block / 8, int64_t{1})
                       : block;
    while (begin < end && !IsCancelled(run_.cancellation)) {
      if (LoadBounds(width, selections, step)) {
        FeedInPlace(first, width, begin, end, selections, step);
        return false;
      }
      const int64_t next = std::min(begin + size, end);
      const std::byte* rows = source_.Get(first, width, begin, next);
      if (IsCancelled(run_.cancellation)) return false;
      bool done = true;
      for (int64_t c = 0; c < width; ++c) {
        Selection<Key>& selection = selections[c * step];
        const std::byte* row = At<Key>(rows, c * (next - begin));
        feed_.Feed({row, next - begin, begin}, std::span(&selection, 1));
        done &= feed_.IsComplete(selection);
      }
      if (done) return true;
      begin = next;
      size = block;
    }
    return false;
  }

 private:
  // The minimum width for FeedInPlace(). Narrower blocks are copied.
  static constexpr int64_t kMinColumns = 32;

  // Sets bounds_ for FeedInPlace(). Returns false if columns must be copied.
  bool LoadBounds(int64_t width, const Selection<Key>* selections,
                  int64_t step) {
    const Plan& plan = run_.plan;
    // Copying 1-byte elements is cheap and allows Feed() to stop early.
    if (width < kMinColumns || !plan.input.contiguous || plan.inner == 1 ||
        InfoOf(plan.dtype).bytes == 1) {
      return false;
    }
    bounds_.resize(static_cast<size_t>(width));
    columns_.resize(static_cast<size_t>(width + kScanSlack));
    for (int64_t c = 0; c < width; ++c) {
      if (!selections[c * step].bounded()) return false;
      bounds_[static_cast<size_t>(c)] = selections[c * step].bound();
    }
    return true;
  }

  void FeedInPlace(int64_t first, int64_t width, int64_t begin, int64_t end,
                   Selection<Key>* selections, int64_t step) {
    const auto encoder = run_.encoder;
    const int64_t offset = SliceOffset(run_.plan, run_.plan.input, first);
    const auto feed_rows = [&](int64_t low, int64_t high) {
      for (int64_t i = low; i < high; ++i) {
        const std::byte* row = run_.at(offset + i * run_.plan.inner);
        const int64_t found = run_.kernels.scan_columns(
            encoder, row, width, bounds_.data(), columns_.data());
        for (int64_t j = 0; j < found; ++j) {
          const int64_t column = columns_[static_cast<size_t>(j)];
          Selection<Key>& selection = selections[column * step];
          const Key bits = Load<Key>(row, column);
          selection.Offer(encoder(bits), bits, static_cast<uint64_t>(i));
          bounds_[static_cast<size_t>(column)] = selection.bound();
        }
      }
    };
    ForEachBlock(begin, end, std::max(kBlockElements / width, int64_t{1}),
                 run_.cancellation, feed_rows);
  }

  const RunContext<Key, kFloat>& run_;
  BlockSource<Key, kFloat> source_;
  RowFeed<Key, kFloat> feed_;
  std::vector<Key> bounds_;
  std::vector<uint32_t> columns_;
};

}  // namespace topk::cpu
