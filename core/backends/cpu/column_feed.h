// Feeds rows of neighbouring columns to a selection each: for k or types that
// the state of simd/columns-inl.h does not take, and for folds, where what a
// selection holds of an element must do when the element is gone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/selection.h"
#include "core/base/checked.h"
#include "core/base/elements.h"

namespace topk::cpu {

/// Elements of neighbouring columns that are taken without a look at the
/// cancellation: where each takes its first memory, half a millisecond.
inline constexpr int64_t kBlockColumns = int64_t{1} << 11;

/// The selections of columns that lie side by side, and their bounds, which a
/// vector is compared with.
template <class Key, bool kFloat>
class ColumnSelections {
 public:
  /// If cancelled during construction, there may be fewer columns.
  ColumnSelections(const Kernels<Key, kFloat>& kernels,
                   const SortKeyEncoder<Key, kFloat>& encoder, int64_t columns,
                   int64_t k, int64_t slack, int64_t n,
                   const Cancellation* cancellation)
      : kernels_(kernels), encoder_(encoder), cancellation_(cancellation) {
    const Selection<Key> empty(kernels.kth, k, slack, n, cancellation);
    selections_.reserve(static_cast<size_t>(columns));
    bounds_.reserve(static_cast<size_t>(columns));
    const auto add = [&](int64_t begin, int64_t end) {
      selections_.insert(selections_.end(), static_cast<size_t>(end - begin),
                         empty);
      bounds_.insert(bounds_.end(), static_cast<size_t>(end - begin), Key{0});
    };
    ForEachBlock(0, columns, kBlockColumns, cancellation, add);
  }

  /// Upper bound on the memory of this, in bytes.
  static Size Bytes(int64_t columns, int64_t k, int64_t slack, int64_t n) {
    return columns * (Selection<Key>::Bytes(k, slack, n) + sizeof(Key));
  }

  /// Offers elements of the columns first_column, first_column + 1, ..., all
  /// with one index. Looks whether it is cancelled once for many columns, and
  /// not at all for few. REQUIRES: each column's indices ascend; it was not
  /// cancelled before it was made.
  void Feed(const std::byte* elements, int64_t first_column, int64_t count,
            int64_t index) {
    const auto feed = [&](int64_t begin, int64_t end) {
      FeedBlock(At<Key>(elements, begin), first_column + begin, end - begin,
                index);
    };
    ForEachBlock(0, count, kBlockColumns, cancellation_, feed);
  }

  Selection<Key>& operator[](int64_t column) {
    return selections_[static_cast<size_t>(column)];
  }

  /// Starts all again, keeping the memory; if cancelled not all.
  void Reset() {
    const auto reset = [this](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) (*this)[c].Reset();
    };
    ForEachBlock(0, static_cast<int64_t>(selections_.size()), kBlockColumns,
                 cancellation_, reset);
    bounded_ = 0;
  }

 private:
  void FeedBlock(const std::byte* elements, int64_t first_column, int64_t count,
                 int64_t index) {
    if (bounded_ < static_cast<int64_t>(selections_.size())) {
      for (int64_t c = 0; c < count; ++c) {
        Offer(elements, c, first_column, index);
      }
      return;
    }
    std::array<uint32_t, kBlockColumns + kScanSlack> columns;
    const int64_t found =
        kernels_.scan_columns(encoder_, elements, count,
                              bounds_.data() + first_column, columns.data());
    for (int64_t i = 0; i < found; ++i) {
      Offer(elements, columns[static_cast<size_t>(i)], first_column, index);
    }
  }

  void Offer(const std::byte* elements, int64_t c, int64_t first_column,
             int64_t index) {
    const auto column = static_cast<size_t>(first_column + c);
    Selection<Key>& selection = selections_[column];
    const bool had = selection.bounded();
    const Key bits = Load<Key>(elements, c);
    selection.Offer(encoder_(bits), bits, static_cast<uint64_t>(index));
    if (selection.bounded()) {
      bounded_ += !had;
      bounds_[column] = selection.bound();
    }
  }

  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat>& encoder_;
  const Cancellation* cancellation_;
  std::vector<Selection<Key>> selections_;
  std::vector<Key> bounds_;
  int64_t bounded_ = 0;  // how many selections have a bound
};

}  // namespace topk::cpu
