// The portable CPU backend: cuts a tensor into tasks for oneTBB.
//
// What: rows (slices whose elements are a stride apart) are taken several to a
// task; columns (slices of a packed tensor that lie side by side, axis not
// last) in tiles that share cache lines; and where there are too few of either
// to occupy the threads, each is cut along the axis into pieces, selected apart
// and merged.
//
// Why no cut can be seen in the answer: the order is total (selection.h).
//
// Tests: conformance/, exhaustive/, unit/cuts_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <vector>

#include "core/backends/cpu/cpu_fold.h"
#include "core/backends/cpu/kernels.h"

namespace topk {
namespace {

using cpu::FeedColumns;
using cpu::FeedRow;
using cpu::Selection;
using cpu::WriteSlice;

// A task of fewer elements costs more to hand over than to run (about 20 us).
constexpr int64_t kTaskElements = int64_t{1} << 15;
// Columns in a tile: whole cache lines for every type.
constexpr int64_t kTileColumns = 64;
// At least this many spare candidates: small k would partition too often.
constexpr int64_t kRowSlack = 256;
constexpr int64_t kColumnSlack = 8;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One tensor's run: how it is cut, and the typed loops.
template <class Key, bool kFloat>
class Runner {
 public:
  Runner(const Plan& plan, const std::byte* tensor, const Outputs& outputs,
         const KeyMap<Key, kFloat>& map, int threads)
      : plan_(plan),
        tensor_(tensor),
        outputs_(outputs),
        map_(map),
        threads_(threads),
        stride_(plan.input.strides[static_cast<size_t>(plan.axis)]),
        // All elements of a slice with stride 0 are one: the first k win.
        n_(stride_ == 0 ? plan.k : plan.n) {}

  std::string_view Run() {
    if (plan_.slices() == 0) return "empty";
    const bool columns = plan_.input.packed && plan_.inner > 1;
    // A unit is what one task takes at least: a row, or a tile of columns.
    const int64_t tiles = CeilDivide(plan_.inner, kTileColumns);
    const int64_t units = columns ? plan_.outer * tiles : plan_.slices();
    const int64_t unit_elements =
        columns ? n_ * std::min(kTileColumns, plan_.inner) : n_;
    const int64_t pieces = Pieces(units, unit_elements);
    const int64_t grain = std::max<int64_t>(
        1, kTaskElements / std::max<int64_t>(1, unit_elements));
    ForEach(units, grain, [&](int64_t begin, int64_t end) {
      if (columns) {
        for (int64_t u = begin; u < end; ++u) {
          RunTile(u / tiles, u % tiles * kTileColumns, pieces);
        }
      } else {
        RunRows(begin, end, pieces);
      }
    });
    if (columns) return pieces > 1 ? "split-columns" : "columns";
    return pieces > 1 ? "split-rows" : "rows";
  }

 private:
  // Into how many pieces to cut each unit along the axis, so that a few long
  // units occupy all threads.
  int64_t Pieces(int64_t units, int64_t unit_elements) const {
    if (threads_ == 1 || units >= threads_) return 1;
    const int64_t wanted = CeilDivide(2 * threads_, units);
    const int64_t useful = unit_elements / (2 * kTaskElements);
    return std::clamp<int64_t>(std::min(wanted, useful), 1, n_);
  }

  // Calls fn on ranges of [0, count), in parallel if there are several.
  template <class Fn>
  void ForEach(int64_t count, int64_t grain, const Fn& fn) const {
    if (threads_ == 1 || count <= grain) {
      fn(int64_t{0}, count);
      return;
    }
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain)),
        [&](const tbb::blocked_range<int64_t>& range) {
          fn(range.begin(), range.end());
        });
  }

  void RunRows(int64_t begin, int64_t end, int64_t pieces) const {
    std::vector<Selection<Key>> parts(
        static_cast<size_t>(pieces),
        Selection<Key>(plan_.k, std::max(plan_.k, kRowSlack), n_));
    for (int64_t slice = begin; slice < end; ++slice) {
      const std::byte* row = At(SliceOffset(plan_, plan_.input, slice));
      ForEach(pieces, 1, [&](int64_t p_begin, int64_t p_end) {
        for (int64_t p = p_begin; p < p_end; ++p) {
          const int64_t first = p * n_ / pieces;
          const int64_t last = (p + 1) * n_ / pieces;
          FeedRow(map_, row + Bytes(first * stride_), last - first, stride_,
                  first, parts[static_cast<size_t>(p)]);
        }
      });
      for (int64_t p = 1; p < pieces; ++p) {
        parts[0].Merge(parts[static_cast<size_t>(p)]);
      }
      WriteSlice(plan_, slice, parts[0], outputs_);
      parts[0].Reset();
    }
  }

  void RunTile(int64_t outer, int64_t column, int64_t pieces) const {
    const int64_t width = std::min(kTileColumns, plan_.inner - column);
    const std::byte* tile = At(outer * plan_.n * plan_.inner + column);
    std::vector<std::vector<Selection<Key>>> parts(
        static_cast<size_t>(pieces),
        std::vector<Selection<Key>>(
            static_cast<size_t>(width),
            Selection<Key>(plan_.k, std::max(plan_.k, kColumnSlack), n_)));
    ForEach(pieces, 1, [&](int64_t p_begin, int64_t p_end) {
      for (int64_t p = p_begin; p < p_end; ++p) {
        const int64_t last = (p + 1) * n_ / pieces;
        for (int64_t i = p * n_ / pieces; i < last; ++i) {
          FeedColumns(map_, tile + Bytes(i * plan_.inner), i,
                      std::span(parts[static_cast<size_t>(p)]));
        }
      }
    });
    for (size_t c = 0; c < static_cast<size_t>(width); ++c) {
      for (size_t p = 1; p < parts.size(); ++p) {
        parts[0][c].Merge(parts[p][c]);
      }
      WriteSlice(plan_, outer * plan_.inner + column + static_cast<int64_t>(c),
                 parts[0][c], outputs_);
    }
  }

  static int64_t Bytes(int64_t elements) {
    return elements * static_cast<int64_t>(sizeof(Key));
  }
  const std::byte* At(int64_t element) const {
    return tensor_ + Bytes(element);
  }

  const Plan& plan_;
  const std::byte* tensor_;
  const Outputs& outputs_;
  const KeyMap<Key, kFloat>& map_;
  const int threads_;
  const int64_t stride_;
  const int64_t n_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : threads_(threads), arena_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string_view instruction_set() const override { return "portable"; }
  int threads() const override { return threads_; }

  Status Supports(const Plan&) const override { return {}; }

  Execution Run(const Plan& plan, std::span<const std::byte> tensor,
                const Outputs& outputs) const override {
    std::string_view kernel;
    const auto run = [&](int threads) {
      kernel = cpu::WithKeyMap(plan, [&]<class Key, bool kFloat>(
                                         const KeyMap<Key, kFloat>& map) {
        return Runner<Key, kFloat>(plan, tensor.data(), outputs, map, threads)
            .Run();
      });
    };
    // Entering the arena is a hand-over too: a small tensor stays here.
    if (!cpu::SortsInParallel(plan) &&
        (threads_ == 1 || plan.slices() * plan.n <= 2 * kTaskElements)) {
      run(1);
    } else {
      arena_.execute([&] { run(threads_); });
    }
    return {name(), kernel, instruction_set()};
  }

  std::unique_ptr<Fold> Start(const Plan& plan,
                              const Outputs& outputs) const override {
    return cpu::MakeFold(plan, outputs, instruction_set(), arena_);
  }

 private:
  const int threads_;
  mutable tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace topk
