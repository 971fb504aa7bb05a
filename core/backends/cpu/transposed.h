// Slices of a packed tensor that lie side by side, copied to rows a tile of
// columns at a time.
//
// Algorithm: a tile that fits into L2 is transposed, its rows are run like any
// others, and their outputs are transposed to where they belong.
//
// Why: rows have the faster algorithms. Of 4 tensors of 1000 x 4096, k 5 of u8
// and f16 take 0.28 of the time of a selection for each column, k 100 of f32
// 0.4 (Xeon with AVX-512). Into the state of simd/columns-inl.h a small k of
// 32 and 64 bits enters seldom enough to be faster there.
//
// When: n of 32 KiB at most, so that a tile is 16 columns wide.
//
// Tests: unit/algorithms_test.cc, conformance/.
#pragma once

#include <algorithm>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/rows.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/scratch.h"

namespace topk::cpu {

/// Runs tiles of columns as rows. REQUIRES: kTransposed.
template <class Key, bool kFloat>
class TransposedRunner {
 public:
  explicit TransposedRunner(const Run<Key, kFloat>& run)
      : run_(run),
        plan_(run.plan),
        rows_plan_(RowsOfTile(plan_, run.schedule.tile)),
        rows_schedule_(Choose(rows_plan_, 1)),
        tile_(tile_memory_.Get(static_cast<size_t>(rows_plan_.input.bytes))),
        outputs_{
            Memory(values_, rows_plan_.wants_values, rows_plan_.values),
            Memory(indices_, rows_plan_.wants_indices, rows_plan_.indices)},
        rows_({rows_plan_, rows_schedule_, run.set, run.kernels, run.encoder,
               tile_.data(), outputs_, run.cancellation}) {}

  /// Upper bound on the memory of this, in bytes, without the rows' runner.
  static Size Bytes(const Plan& rows) {
    return Size(rows.input.bytes) + rows.values.bytes + rows.indices.bytes;
  }

  /// Runs the tiles begin .. end - 1 of Schedule::tile columns.
  void Do(int64_t begin, int64_t end) {
    const int64_t tile = run_.schedule.tile;
    const int64_t tiles = run_.schedule.tiles(plan_);
    RowRunner<Key, kFloat> runner(rows_);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t outer = unit / tiles;
      const int64_t column = unit % tiles * tile;
      const int64_t width = std::min(tile, plan_.inner - column);
      run_.kernels.transpose(run_.at(outer * plan_.n * plan_.inner + column),
                             plan_.n, width, plan_.inner, tile_.data(),
                             plan_.n);
      runner.Do(0, width);
      if (IsCancelled(run_.cancellation)) return;
      const int64_t slice = outer * plan_.inner + column;
      if (plan_.wants_values) {
        Spread(run_.kernels, plan_.values, slice, width, outputs_.values,
               run_.outputs.values);
      }
      if (!plan_.wants_indices) continue;
      if (InfoOf(plan_.index_type).bytes == 8) {
        Spread(run_.set.template kernels<uint64_t, false>(), plan_.indices,
               slice, width, outputs_.indices, run_.outputs.indices);
      } else {
        Spread(run_.set.template kernels<uint32_t, false>(), plan_.indices,
               slice, width, outputs_.indices, run_.outputs.indices);
      }
    }
  }

 private:
  using Span = std::span<std::byte>;

  static Span Memory(Scratch<std::byte>& memory, bool wanted,
                     const Layout& layout) {
    return memory.Get(wanted ? static_cast<size_t>(layout.bytes) : 0);
  }

  // Copies an output of the rows to where the columns from `slice` on have it.
  template <class T, bool kIsFloat>
  void Spread(const Kernels<T, kIsFloat>& kernels, const Layout& layout,
              int64_t slice, int64_t width, Span from, Span to) const {
    if (layout.packed) {
      const int64_t first = SliceOffset(plan_, layout, slice);
      kernels.transpose(from.data(), width, plan_.k, plan_.k,
                        to.data() + first * static_cast<int64_t>(sizeof(T)),
                        plan_.inner);
      return;
    }
    const int64_t step = layout.strides[static_cast<size_t>(plan_.axis)];
    for (int64_t c = 0; c < width; ++c) {
      const int64_t first = SliceOffset(plan_, layout, slice + c);
      for (int64_t j = 0; j < plan_.k; ++j) {
        Store(to.data(), first + j * step,
              Load<T>(from.data(), c * plan_.k + j));
      }
    }
  }

  const Run<Key, kFloat>& run_;
  const Plan& plan_;
  const Plan rows_plan_;
  const Schedule rows_schedule_;
  Scratch<std::byte> tile_memory_;
  Scratch<std::byte> values_;
  Scratch<std::byte> indices_;
  const Span tile_;
  const Outputs outputs_;
  const Run<Key, kFloat> rows_;
};

}  // namespace topk::cpu
