// Small k where the axis is not the last: a lane is a column.
//
// Algorithm: the k best keys and indices of every column are k rows of a state,
// best first. A row of the tensor is compared with the limits, the numbers that
// the last row of keys stands for, a vector of columns at a time; where some
// column has a better element, it is inserted, in all columns at once: each
// level takes the element, or what the level above had, or stays.
//
// Why: loads are contiguous however narrow the tensor, and a vector that brings
// nothing new, as most do when n is large compared with k, costs one comparison
// of numbers. Rows arrive in ascending index and only a greater key is
// inserted, so that ties stay with the lower index. Memory is fetched two pages
// ahead, because the hardware stops fetching at the end of a page and while
// elements are inserted: without, 4 tensors of 1000 x 4096 f32 take 1.15 times
// as long (k 5). Taking 8 rows of a vector at a time, so that its state stays
// in L1, gained as much there, but columns of 64 took 1.4 times as long; fewer
// columns at a time took longer everywhere (Zen 4).
//
// When: k <= kColumnK, keys of 32 and 64 bits. Costs: the read and about 4 k
// instructions per vector and insertion.
//
// Tests: unit/kernels_test.cc, conformance/, exhaustive/.
#if defined(TOPK_SIMD_COLUMNS) == defined(HWY_TARGET_TOGGLE)
#ifdef TOPK_SIMD_COLUMNS
#undef TOPK_SIMD_COLUMNS
#else
#define TOPK_SIMD_COLUMNS
#endif

#include <algorithm>

#include "core/backends/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Puts a vector of keys where they belong among the best `levels` of their
/// columns; the last level is lost. `keys` and `indices` are the first level's.
/// Returns the keys of the last level.
template <class Key, class V>
HWY_INLINE V Insert(V key, Key index, Key* keys, Key* indices, int64_t levels) {
  const Tag<Key> d;
  constexpr int64_t kPitch = ColumnState<Key>::kBlock;
  const V new_index = hn::Set(d, index);
  int64_t at = (levels - 1) * kPitch;
  V level_key = hn::Load(d, keys + at);
  V level_index = hn::Load(d, indices + at);
  auto here = hn::Gt(key, level_key);
  for (; at > 0; at -= kPitch) {
    const V above_key = hn::Load(d, keys + at - kPitch);
    const V above_index = hn::Load(d, indices + at - kPitch);
    const auto above = hn::Gt(key, above_key);
    const V down_key = hn::IfThenElse(above, above_key, key);
    const V down_index = hn::IfThenElse(above, above_index, new_index);
    hn::Store(hn::IfThenElse(here, down_key, level_key), d, keys + at);
    hn::Store(hn::IfThenElse(here, down_index, level_index), d, indices + at);
    level_key = above_key;
    level_index = above_index;
    here = above;
  }
  hn::Store(hn::IfThenElse(here, key, level_key), d, keys);
  hn::Store(hn::IfThenElse(here, new_index, level_index), d, indices);
  return hn::Load(d, keys + (levels - 1) * kPitch);
}

/// How far ahead of the elements, in bytes, memory is fetched.
inline constexpr int64_t kColumnsAhead = 8192;

/// Kernels::feed_columns.
template <class Key, bool kFloat>
void FeedColumns(const SortKeyEncoder<Key, kFloat>& map,
                 const ColumnState<Key>& state, const std::byte* elements,
                 int64_t count, int64_t pitch, int64_t first) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  constexpr int64_t kBlock = ColumnState<Key>::kBlock;
  const VectorMap<Key, kFloat> vector_map(map);
  const int64_t whole = state.columns - state.columns % kLanes;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* row = elements + i * pitch * sizeof(Key);
    const auto index = static_cast<Key>(first + i);
    // The first k rows are taken whatever they are: a key of 0 exceeds none.
    const bool filling = first + i < state.k;
    const int64_t levels = filling ? first + i + 1 : state.k;
    const auto insert = [&](auto key, int64_t column) HWY_ATTR {
      Key* keys = state.at(column, 0);
      Key* indices = keys + state.k * kBlock;
      if (filling) {
        const int64_t last = (levels - 1) * kBlock;
        hn::Store(hn::Zero(d), d, keys + last);
        hn::Store(hn::Set(d, index), d, indices + last);
      }
      hn::Store(vector_map.Limit(Insert(key, index, keys, indices, levels)), d,
                state.limits + column);
    };
    const auto bits_at = [&](int64_t column) HWY_ATTR {
      return LoadElements(d, row + column * sizeof(Key));
    };
    for (int64_t column = 0; column < whole;) {
      // First which vectors have something better, then those: a branch for
      // each would wait for its element to come from memory.
      const int64_t strip = column;
      const int64_t vectors = std::min(kWord, (whole - strip) / kLanes);
      uint64_t better = filling ? ~uint64_t{0} >> (kWord - vectors) : 0;
      for (int64_t v = 0; v < vectors && !filling; ++v, column += kLanes) {
        hwy::Prefetch(row + column * sizeof(Key) + kColumnsAhead);
        const auto exceed = vector_map.Exceed(
            bits_at(column), hn::Load(d, state.limits + column));
        better |= uint64_t{!hn::AllFalse(d, exceed)} << v;
      }
      column = strip + vectors * kLanes;
      for (; better != 0; better &= better - 1) {
        const int64_t c =
            strip + kLanes * static_cast<int64_t>(
                                 hwy::Num0BitsBelowLS1Bit_Nonzero64(better));
        insert(vector_map.Keys(bits_at(c)), c);
      }
    }
    if (whole < state.columns) {
      const std::byte* at = row + whole * sizeof(Key);
      // Behind the columns are others, except at the end.
      alignas(kVectorBytes) Key padded[kLanes] = {};
      if ((count - 1 - i) * pitch < kLanes) {
        std::memcpy(padded, at,
                    static_cast<size_t>(state.columns - whole) * sizeof(Key));
        at = reinterpret_cast<const std::byte*>(padded);
      }
      const auto bits = LoadElements(d, at);
      const auto lanes =
          hn::FirstN(d, static_cast<size_t>(state.columns - whole));
      const auto exceed = hn::And(
          lanes, vector_map.Exceed(bits, hn::Load(d, state.limits + whole)));
      if (filling || !hn::AllFalse(d, exceed)) {
        // A key of 0 exceeds none: the lanes behind may be columns of a wider
        // row.
        insert(hn::IfThenElseZero(lanes, vector_map.Keys(bits)), whole);
      }
    }
  }
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once for each instruction set
