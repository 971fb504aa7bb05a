// Feeds rows of neighbouring columns to a selection each: for k or types that
// the state of simd/columns-inl.h does not take, and for folds, where what a
// selection holds of an element must do when the element is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/cpu/elements.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/selection.h"

namespace topk::cpu {

/// The selections of columns that lie side by side, and their bounds, which a
/// vector is compared with.
template <class Key, bool kFloat>
class ColumnSelections {
 public:
  ColumnSelections(const Kernels<Key, kFloat>& kernels,
                   const KeyMap<Key, kFloat>& map, int64_t columns, int64_t k,
                   int64_t slack, int64_t n)
      : kernels_(kernels),
        map_(map),
        selections_(static_cast<size_t>(columns),
                    Selection<Key>(kernels.kth, k, slack, n)),
        bounds_(static_cast<size_t>(columns), Key{0}),
        found_(static_cast<size_t>(columns + kScanSlack)) {}

  /// Offers elements of the columns first_column, first_column + 1, ..., all
  /// with one index. REQUIRES: each column's indices ascend.
  void Feed(const std::byte* elements, int64_t first_column, int64_t count,
            int64_t index) {
    if (bounded_ < static_cast<int64_t>(selections_.size())) {
      for (int64_t c = 0; c < count; ++c) {
        Offer(elements, c, first_column, index);
      }
      return;
    }
    const int64_t found = kernels_.scan_columns(
        map_, elements, count, bounds_.data() + first_column, found_.data());
    for (int64_t i = 0; i < found; ++i) {
      Offer(elements, found_[static_cast<size_t>(i)], first_column, index);
    }
  }

  Selection<Key>& operator[](int64_t column) {
    return selections_[static_cast<size_t>(column)];
  }

  /// Starts all again, keeping the memory.
  void Reset() {
    for (Selection<Key>& selection : selections_) selection.Reset();
    bounded_ = 0;
  }

 private:
  void Offer(const std::byte* elements, int64_t c, int64_t first_column,
             int64_t index) {
    const auto column = static_cast<size_t>(first_column + c);
    Selection<Key>& selection = selections_[column];
    const bool had = selection.bounded();
    const Key bits = Load<Key>(elements, c);
    selection.Offer(map_(bits), bits, static_cast<uint64_t>(index));
    if (selection.bounded()) {
      bounded_ += !had;
      bounds_[column] = selection.bound();
    }
  }

  const Kernels<Key, kFloat>& kernels_;
  const KeyMap<Key, kFloat>& map_;
  std::vector<Selection<Key>> selections_;
  std::vector<Key> bounds_;
  std::vector<uint32_t> found_;
  int64_t bounded_ = 0;  // how many selections have a bound
};

}  // namespace topk::cpu
