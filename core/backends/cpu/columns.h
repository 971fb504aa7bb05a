// Slices of a packed tensor that lie side by side: the axis is not the last.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "core/backends/cpu/column_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

/// Runs tiles of columns. REQUIRES: one of the algorithms for columns.
template <class Key, bool kFloat>
class ColumnRunner {
 public:
  explicit ColumnRunner(const Run<Key, kFloat>& run)
      : run_(run), plan_(run.plan) {}

  /// Runs the tiles begin .. end - 1 of Schedule::tile columns.
  void Do(int64_t begin, int64_t end) {
    const int64_t tile = run_.schedule.tile;
    const int64_t tiles = run_.schedule.tiles(plan_);
    for (int64_t unit = begin; unit < end && !cancelled(); ++unit) {
      const int64_t outer = unit / tiles;
      const int64_t column = unit % tiles * tile;
      const int64_t width = std::min(tile, plan_.inner - column);
      if (run_.schedule.algorithm == Algorithm::kColumns) {
        DoTile(outer, column, width);
      } else {
        DoTileOfSelections(outer, column, width);
      }
    }
    DeferDestroy(selections_,
                 run_.schedule.pieces *
                     ColumnSelections<Key, kFloat>::Bytes(
                         tile, plan_.k, ColumnSlackFor(plan_.k), plan_.n));
  }

 private:
  bool cancelled() const { return IsCancelled(run_.cancellation); }

  using State = ColumnState<Key>;

  struct Free {
    void operator()(Key* p) const {
      ::operator delete(p, std::align_val_t(kVectorBytes));
    }
  };
  // The state of a tile, or of a piece of it.
  using Memory = std::unique_ptr<Key, Free>;

  // A candidate of a column that was cut or folded.
  struct Part {
    Key key;
    int64_t index;
  };

  // Where a column's outputs begin, in elements.
  struct Place {
    int64_t value;
    int64_t index;
  };

  // `factor` rows of the tensor form one row of factor * width columns here;
  // what is left of them is a row of fewer columns. Each piece takes some of
  // the rows.
  void DoTile(int64_t outer, int64_t column, int64_t width) {
    const int64_t factor = run_.schedule.row_factor;
    const int64_t pieces = run_.schedule.pieces;
    const int64_t rows = plan_.n / factor;
    const int64_t pitch = plan_.inner * factor;
    const std::byte* tile = run_.at(outer * plan_.n * plan_.inner + column);
    while (static_cast<int64_t>(pieces_.size()) < pieces) {
      const int64_t size =
          State::Elements(run_.schedule.tile * factor, plan_.k);
      pieces_.emplace_back(static_cast<Key*>(
          ::operator new(static_cast<size_t>(size) * sizeof(Key),
                         std::align_val_t(kVectorBytes))));
    }
    const int64_t block = std::max(
        kBlockBytes / (width * factor * static_cast<int64_t>(sizeof(Key))),
        int64_t{1});
    const auto feed = [&](int64_t p) {
      State state = StateOf(p, width * factor);
      const int64_t first = p * rows / pieces;
      const int64_t last = (p + 1) * rows / pieces;
      const auto row = [&](int64_t r) { return At<Key>(tile, r * pitch); };
      ForEachBlock(first, last, block, run_.cancellation,
                   [&](int64_t begin, int64_t end) {
                     run_.kernels.feed_columns(run_.encoder, state, row(begin),
                                               end - begin, pitch,
                                               begin - first);
                   });
      if (p == pieces - 1 && plan_.n % factor > 0) {
        state.columns = plan_.n % factor * width;
        run_.kernels.feed_columns(run_.encoder, state, row(rows), 1, pitch,
                                  rows - first);
      }
    };
    // After a cancellation the indices are not valid.
    if (!ForEachPiece(pieces, run_.cancellation, feed)) return;
    if (!FindPlaces(outer * plan_.inner + column, width)) return;
    if (factor == 1 && pieces == 1 && plan_.order == Order::kValue) {
      WriteTile(width, tile);
    } else {
      MergeTile(width, tile, rows);
    }
  }

  State StateOf(int64_t piece, int64_t columns) const {
    return State::In(pieces_[static_cast<size_t>(piece)].get(), columns,
                     plan_.k);
  }

  // Writes the state of a tile as it is.
  void WriteTile(int64_t width, const std::byte* tile) const {
    const State state = StateOf(0, width);
    for (int64_t j = 0; j < plan_.k && !cancelled(); ++j) {
      for (int64_t c = 0; c < width; ++c) {
        const Key* key = state.at(c, j);
        Put(tile, c, j,
            {*key, static_cast<int64_t>(key[plan_.k * State::kBlock])});
      }
    }
  }

  // Merges what the pieces and the folds have of each column.
  void MergeTile(int64_t width, const std::byte* tile, int64_t rows) {
    const int64_t factor = run_.schedule.row_factor;
    const auto pieces = static_cast<int64_t>(pieces_.size());
    for (int64_t c = 0; c < width && !cancelled(); ++c) {
      parts_.clear();
      for (int64_t p = 0; p < pieces; ++p) {
        const State state = StateOf(p, width * factor);
        for (int64_t f = 0; f < factor; ++f) {
          for (int64_t j = 0; j < plan_.k; ++j) {
            const Key* key = state.at(f * width + c, j);
            const auto row = static_cast<int64_t>(key[plan_.k * State::kBlock]);
            parts_.push_back({*key, (p * rows / pieces + row) * factor + f});
          }
        }
      }
      const auto best = parts_.begin() + plan_.k;
      std::partial_sort(
          parts_.begin(), best, parts_.end(), [](const Part& a, const Part& b) {
            return a.key != b.key ? a.key > b.key : a.index < b.index;
          });
      if (plan_.order == Order::kIndex) {
        std::sort(parts_.begin(), best, [](const Part& a, const Part& b) {
          return a.index < b.index;
        });
      }
      for (int64_t j = 0; j < plan_.k; ++j) {
        Put(tile, c, j, parts_[static_cast<size_t>(j)]);
      }
    }
  }

  // Looks up where the outputs of a tile's columns begin. Returns whether all
  // are known, which they are unless cancelled.
  bool FindPlaces(int64_t slice, int64_t width) {
    places_.resize(static_cast<size_t>(width));
    const auto find = [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        places_[static_cast<size_t>(c)] = {
            SliceOffset(plan_, plan_.values, slice + c),
            SliceOffset(plan_, plan_.indices, slice + c)};
      }
    };
    return ForEachBlock(0, width, kBlockColumns, run_.cancellation, find);
  }

  void Put(const std::byte* tile, int64_t c, int64_t j,
           const Part& part) const {
    const auto axis = static_cast<size_t>(plan_.axis);
    const Place& place = places_[static_cast<size_t>(c)];
    if (plan_.wants_values) {
      const Key bits = run_.encoder.IsShared(part.key)
                           ? Load<Key>(tile, part.index * plan_.inner + c)
                           : run_.encoder.Bits(part.key);
      Store(run_.outputs.values.data(),
            place.value + j * plan_.values.strides[axis], bits);
    }
    if (plan_.wants_indices) {
      const auto index = static_cast<uint64_t>(part.index + plan_.index_offset);
      const int64_t at = place.index + j * plan_.indices.strides[axis];
      if (InfoOf(plan_.index_type).bytes == 8) {
        Store(run_.outputs.indices.data(), at, index);
      } else {
        Store(run_.outputs.indices.data(), at, static_cast<uint32_t>(index));
      }
    }
  }

  void DoTileOfSelections(int64_t outer, int64_t column, int64_t width) {
    const int64_t pieces = run_.schedule.pieces;
    const int64_t tile = outer * plan_.n * plan_.inner + column;
    while (static_cast<int64_t>(selections_.size()) < pieces) {
      selections_.emplace_back(run_.kernels, run_.encoder, run_.schedule.tile,
                               plan_.k, ColumnSlackFor(plan_.k), plan_.n,
                               run_.cancellation);
      if (cancelled()) return;  // some columns may be missing
    }
    const int64_t block = std::max(kBlockColumns / width, int64_t{1});
    const auto feed = [&](int64_t p) {
      auto& selections = selections_[static_cast<size_t>(p)];
      Unpacked<Key, kFloat> elements(run_.kernels, plan_, run_.tensor,
                                     run_.cancellation);
      const auto feed_rows = [&](int64_t begin, int64_t end) {
        // Rows of the whole tensor lie together.
        const int64_t rows = width == plan_.inner ? end - begin : 1;
        for (int64_t i = begin; i < end; i += rows) {
          const std::byte* row =
              elements.Get(tile + i * plan_.inner, rows * width);
          for (int64_t r = 0; r < rows; ++r) {
            selections.Feed(At<Key>(row, r * width), 0, width, i + r);
          }
        }
      };
      ForEachBlock(p * plan_.n / pieces, (p + 1) * plan_.n / pieces, block,
                   run_.cancellation, feed_rows);
    };
    if (!ForEachPiece(pieces, run_.cancellation, feed)) return;
    SliceWriter<Key> writer(plan_, run_.outputs, run_.kernels,
                            run_.schedule.sort_pieces, run_.cancellation);
    for (int64_t c = 0; c < width && !cancelled(); ++c) {
      Selection<Key>& selection = selections_[0][c];
      for (size_t p = 1; p < selections_.size(); ++p) {
        selection.Merge(selections_[p][c]);
      }
      writer.Write(outer * plan_.inner + column + c, selection);
    }
    for (auto& selections : selections_) selections.Reset();
  }

  const Run<Key, kFloat>& run_;
  const Plan& plan_;
  std::vector<Memory> pieces_;
  std::vector<Part> parts_;
  std::vector<Place> places_;
  std::vector<ColumnSelections<Key, kFloat>> selections_;
};

}  // namespace topk::cpu
