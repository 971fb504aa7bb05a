// Selects in place from adjacent columns of a contiguous tensor, for a small k
// (simd/columns-inl.h).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/slice_writer.h"

namespace topk::cpu {

/// Processes columns in tiles. REQUIRES: the algorithm is kColumns.
template <class Key, bool kFloat>
class ColumnRunner {
 public:
  /// `context` must outlive this object.
  explicit ColumnRunner(const ExecutionContext& context)
      : context_(context),
        plan_(context.plan),
        kernels_(context.set.kernels<Key, kFloat>()),
        encoder_(InfoOf(plan_.dtype), plan_.direction == Direction::kLargest),
        writer_(context) {}

  /// Runs a tile of `width` columns. Joins each group of `factor` adjacent rows
  /// of the tensor into one row of factor * width columns. The last joined row
  /// may be shorter. Divides the joined rows among pieces that run in parallel.
  void Do(int64_t slice, int64_t width) {
    const int64_t factor = context_.schedule.row_factor;
    const int64_t pieces = context_.schedule.pieces;
    const int64_t rows = plan_.n / factor;
    const int64_t pitch = plan_.inner * factor;
    const int64_t outer = slice / plan_.inner;
    const int64_t column = slice % plan_.inner;
    const std::byte* tile = context_.at(outer * plan_.n * plan_.inner + column);
    while (static_cast<int64_t>(piece_blocks_.size()) < pieces) {
      const int64_t size =
          State::Elements(context_.schedule.tile * factor, plan_.k);
      piece_blocks_.push_back(std::make_unique_for_overwrite<Block[]>(
          static_cast<size_t>(size / State::kBlock)));
    }
    const int64_t block = std::max(
        kBlockBytes / (width * factor * static_cast<int64_t>(sizeof(Key))),
        int64_t{1});
    const auto feed = [&](int64_t p) {
      State state = StateOf(p, width * factor);
      const int64_t first = p * rows / pieces;
      const int64_t last = (p + 1) * rows / pieces;
      const auto row = [&](int64_t r) { return At<Key>(tile, r * pitch); };
      ForEachBlock(first, last, block, context_.cancellation,
                   [&](int64_t begin, int64_t end) {
                     kernels_.feed_columns(encoder_, state, row(begin),
                                           end - begin, pitch, begin - first);
                   });
      if (p == pieces - 1 && plan_.n % factor > 0) {
        state.columns = plan_.n % factor * width;
        kernels_.feed_columns(encoder_, state, row(rows), 1, pitch,
                              rows - first);
      }
    };
    // After a cancellation, the indices are invalid, so do not write outputs.
    if (!ForEachPiece(pieces, context_.cancellation, feed)) return;
    if (factor == 1 && pieces == 1 && plan_.order == Order::kValue &&
        plan_.values.contiguous && plan_.indices.contiguous) {
      WriteTile(outer * plan_.k * plan_.inner + column, width, tile);
    } else {
      MergeTile(slice, width, tile, rows);
    }
  }

 private:
  bool cancelled() const { return IsCancelled(context_.cancellation); }

  using State = ColumnState<Key>;

  struct alignas(kVectorBytes) Block {
    Key keys[State::kBlock];
  };

  struct Item {
    Key key;
    int64_t index;
  };

  State StateOf(int64_t piece, int64_t columns) const {
    Block* const blocks = piece_blocks_[static_cast<size_t>(piece)].get();
    return State::In(reinterpret_cast<Key*>(blocks), columns, plan_.k);
  }

  // Writes the contiguous outputs of a tile without merging. `first` is the
  // position of the first output.
  void WriteTile(int64_t first, int64_t width, const std::byte* tile) const {
    const State state = StateOf(0, width);
    const bool wide = InfoOf(plan_.index_type).bytes == 8;
    for (int64_t j = 0; j < plan_.k && !cancelled(); ++j) {
      for (int64_t c = 0; c < width; ++c) {
        const Key* key = state.at(c, j);
        const auto row = static_cast<int64_t>(key[plan_.k * State::kBlock]);
        const int64_t at = first + j * plan_.inner + c;
        if (plan_.wants_values) {
          Store(context_.outputs.values.data(), at,
                BitsOf({*key, row}, tile, c));
        }
        if (!plan_.wants_indices) continue;
        const auto index = static_cast<uint64_t>(row + plan_.index_offset);
        if (wide) {
          Store(context_.outputs.indices.data(), at, index);
        } else {
          Store(context_.outputs.indices.data(), at,
                static_cast<uint32_t>(index));
        }
      }
    }
  }

  // Merges the candidates of each column from all pieces, and writes the best.
  void MergeTile(int64_t slice, int64_t width, const std::byte* tile,
                 int64_t rows) {
    const int64_t factor = context_.schedule.row_factor;
    const int64_t pieces = context_.schedule.pieces;
    for (int64_t c = 0; c < width && !cancelled(); ++c) {
      items_.clear();
      for (int64_t p = 0; p < pieces; ++p) {
        const State state = StateOf(p, width * factor);
        for (int64_t f = 0; f < factor; ++f) {
          for (int64_t j = 0; j < plan_.k; ++j) {
            const Key* key = state.at(f * width + c, j);
            const auto row = static_cast<int64_t>(key[plan_.k * State::kBlock]);
            items_.push_back({*key, (p * rows / pieces + row) * factor + f});
          }
        }
      }
      const auto best = items_.begin() + plan_.k;
      std::partial_sort(
          items_.begin(), best, items_.end(), [](const Item& a, const Item& b) {
            return a.key != b.key ? a.key > b.key : a.index < b.index;
          });
      if (plan_.order == Order::kIndex) {
        std::sort(items_.begin(), best, [](const Item& a, const Item& b) {
          return a.index < b.index;
        });
      }
      writer_.StoreEach(slice + c, [this, tile, c](size_t j, auto store) {
        store(BitsOf(items_[j], tile, c),
              static_cast<uint64_t>(items_[j].index));
      });
    }
  }

  // Returns the bits of an element of column `c`.
  Key BitsOf(const Item& item, const std::byte* tile, int64_t c) const {
    return encoder_.IsShared(item.key)
               ? Load<Key>(tile, item.index * plan_.inner + c)
               : encoder_.Bits(item.key);
  }

  const ExecutionContext& context_;
  const Plan& plan_;
  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat> encoder_;
  std::vector<std::unique_ptr<Block[]>> piece_blocks_;
  std::vector<Item> items_;
  const SliceWriter<Key> writer_;
};

}  // namespace topk::cpu
