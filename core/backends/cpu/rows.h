// Slices that are rows: their elements lie together, or a stride apart.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

/// Runs the rows begin .. end - 1. REQUIRES: one of the algorithms for rows.
template <class Key, bool kFloat>
class RowRunner {
 public:
  explicit RowRunner(const Run<Key, kFloat>& run)
      : run_(run),
        plan_(run.plan),
        stride_(plan_.input.strides[static_cast<size_t>(plan_.axis)]),
        // All elements of a slice with stride 0 are one: the first k win.
        n_(stride_ == 0 ? plan_.k : plan_.n),
        packed_(InfoOf(plan_.dtype).packed()),
        elements_(run.kernels, plan_, run.tensor, run.cancellation),
        feed_(run.kernels, run.encoder, plan_.k),
        writer_(plan_, run.outputs, run.kernels, run.schedule.sort_pieces,
                run.cancellation) {}

  void Do(int64_t begin, int64_t end) {
    if (run_.schedule.algorithm == Algorithm::kShortRows) {
      DoShort(begin, end);
      return;
    }
    for (int64_t slice = begin; slice < end && !cancelled(); ++slice) {
      DoLong(slice);
    }
    DeferDestroy(parts_,
                 run_.schedule.pieces *
                     Selection<Key>::Bytes(plan_.k, SlackFor(plan_.k), n_));
  }

 private:
  bool cancelled() const { return IsCancelled(run_.cancellation); }

  void DoShort(int64_t begin, int64_t end) {
    const int64_t row_bytes = plan_.n * static_cast<int64_t>(sizeof(Key));
    const int64_t most = packed_ ? kUnpackedBytes : kBlockBytes;
    const int64_t block = std::clamp(most / row_bytes, int64_t{1}, kBlockRows);
    ForEachBlock(
        begin, end, block, run_.cancellation,
        [&](int64_t first, int64_t last) { DoShortBlock(first, last); });
  }

  void DoShortBlock(int64_t begin, int64_t end) {
    const int index_bytes = InfoOf(plan_.index_type).bytes;
    const auto key_bytes = static_cast<int64_t>(sizeof(Key));
    const Outputs& outputs = run_.outputs;
    const ShortRows<Key> rows = {
        elements_.Get(begin * plan_.n, (end - begin) * plan_.n),
        end - begin,
        plan_.n,
        plan_.k,
        plan_.order == Order::kIndex,
        plan_.wants_values ? outputs.values.data() + begin * plan_.k * key_bytes
                           : nullptr,
        plan_.wants_indices
            ? outputs.indices.data() + begin * plan_.k * index_bytes
            : nullptr,
        index_bytes,
        static_cast<uint64_t>(plan_.index_offset)};
    int64_t row = 0;
    while ((row = run_.kernels.select_short_rows(run_.encoder, rows, row)) <
           rows.count) {
      DoLong(begin + row);  // many equal elements
      ++row;
    }
  }

  void DoLong(int64_t slice) {
    const int64_t first = SliceOffset(plan_, plan_.input, slice);
    if (run_.schedule.algorithm == Algorithm::kSort) {
      const std::byte* row = elements_.Get(first, n_);
      if (!cancelled()) writer_.WriteSorted(slice, run_.encoder, row);
      return;
    }
    while (static_cast<int64_t>(parts_.size()) < run_.schedule.pieces) {
      parts_.emplace_back(run_.kernels.kth, plan_.k, SlackFor(plan_.k), n_,
                          run_.cancellation);
    }
    if (packed_) {
      FeedPacked(first);
    } else if (stride_ == 1) {
      feed_.Feed({run_.at(first), n_, 0}, parts_, &hint_);
    } else {
      FeedStrided(run_.at(first));
    }
    for (size_t p = 1; p < parts_.size(); ++p) parts_[0].Merge(parts_[p]);
    writer_.Write(slice, parts_[0]);
    parts_[0].Reset();
  }

  // Copies a block at a time to where the elements lie together.
  void FeedStrided(const std::byte* row) {
    constexpr int64_t kBlock = 2048;
    std::array<Key, kBlock> block;
    const auto feed = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        block[static_cast<size_t>(i - begin)] = Load<Key>(row, i * stride_);
      }
      feed_.FeedMore({reinterpret_cast<const std::byte*>(block.data()),
                      end - begin, begin},
                     parts_[0]);
    };
    ForEachBlock(0, n_, kBlock, run_.cancellation, feed);
  }

  // Unpacks a block at a time. Needs no bound from a look beforehand: each
  // reselection raises the bound, and there are few keys to raise it through.
  void FeedPacked(int64_t first) {
    const DTypeInfo& type = InfoOf(plan_.dtype);
    const Key first_key = FirstKey(type, run_.encoder);
    const auto pieces = static_cast<int64_t>(parts_.size());
    ForEachPiece(pieces, run_.cancellation, [&](int64_t p) {
      Selection<Key>& part = parts_[static_cast<size_t>(p)];
      std::array<std::byte, kUnpackedBlock> block;
      const auto feed = [&](int64_t begin, int64_t end) {
        if (part.bounded() && part.bound() >= first_key) return;
        Unpack(run_.kernels, type, run_.tensor, first + begin, end - begin,
               block.data());
        feed_.Scan({block.data(), end - begin, begin}, plan_.n, part);
      };
      const int64_t begin = p * n_ / pieces;
      const int64_t end = (p + 1) * n_ / pieces;
      // Little at first: there may be k of the first key soon.
      const int64_t soon = std::min(begin + kUnpackedBlock / 8, end);
      feed(begin, soon);
      ForEachBlock(soon, end, kUnpackedBlock, run_.cancellation, feed);
    });
  }

  // Of the first cache, so that what is unpacked is there when it is looked at.
  static constexpr int64_t kUnpackedBlock = int64_t{1} << 13;
  // A row takes 60 ns at least.
  static constexpr int64_t kBlockRows = 1024;

  const Run<Key, kFloat>& run_;
  const Plan& plan_;
  const int64_t stride_;
  const int64_t n_;
  const bool packed_;
  Unpacked<Key, kFloat> elements_;
  RowFeed<Key, kFloat> feed_;
  Hint<Key> hint_;
  std::vector<Selection<Key>> parts_;
  SliceWriter<Key> writer_;
};

}  // namespace topk::cpu
