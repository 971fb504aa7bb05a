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
// inserted, so that ties stay with the lower index. Memory is fetched ahead,
// because the hardware stops fetching at the end of a page and while elements
// are inserted. A strip of columns is taken through several rows before the
// next strip, so that its state stays in L1: 4 tensors of 1000 x 4096 f32 take
// 0.84 of the time of whole rows at k 5, 0.72 at k 10, 1.04 at k 1 (Xeon with
// AVX-512; not measured on Zen 4). Of the rest, at k 5, the read takes 0.6 and
// the insertions into a quarter of the vectors 0.4: 75 instructions each.
// Inserting the elements of 4 to 16 rows of a vector together took 1.3 times as
// long, stores under a mask gained at k 10 and more only.
//
// When: keys of 32 and 64 bits and k <= kColumnK, or less where the chooser
// says so. Costs: the read and about 10 k instructions per inserted vector.
//
// Tests: unit/algorithms_test.cc, conformance/.
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

/// How many vectors of a row are taken before the next row.
inline constexpr int64_t kStrip = 32;
/// How far ahead of the elements memory is fetched: in rows of a strip, or, of
/// rows that one strip takes whole, in bytes.
inline constexpr int64_t kRowsAhead = 2;
inline constexpr int64_t kBytesAhead = 8192;

/// Kernels::feed_columns, of the columns begin .. end - 1, at most a strip.
template <class Key, bool kFloat>
HWY_INLINE void FeedStrip(const VectorEncoder<Key, kFloat>& vector_encoder,
                          const ColumnState<Key>& state,
                          const std::byte* elements, int64_t count,
                          int64_t pitch, int64_t first, int64_t begin,
                          int64_t end) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  constexpr int64_t kBlock = ColumnState<Key>::kBlock;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Key));
  const int64_t vectors = (end - begin) / kLanes;
  const int64_t whole = begin + vectors * kLanes;
  const int64_t ahead = state.columns > kStrip * kLanes
                            ? kRowsAhead * pitch * kBytes
                            : kBytesAhead;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* row = elements + i * pitch * kBytes;
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
      hn::Store(vector_encoder.Limit(Insert(key, index, keys, indices, levels)),
                d, state.limits + column);
    };
    const auto bits_at = [&](int64_t column) HWY_ATTR {
      return LoadElements(d, row + column * kBytes);
    };
    // First which vectors have something better, then those: a branch for each
    // would wait for its element to come from memory.
    uint64_t better = filling ? FirstBits(vectors) : 0;
    for (int64_t v = 0; v < vectors && !filling; ++v) {
      const int64_t column = begin + v * kLanes;
      hwy::Prefetch(row + column * kBytes + ahead);
      const auto exceed = vector_encoder.Exceed(
          bits_at(column), hn::Load(d, state.limits + column));
      better |= uint64_t{!hn::AllFalse(d, exceed)} << v;
    }
    for (; better != 0; better &= better - 1) {
      const int64_t column =
          begin + kLanes * static_cast<int64_t>(
                               hwy::Num0BitsBelowLS1Bit_Nonzero64(better));
      insert(vector_encoder.Keys(bits_at(column)), column);
    }
    if (whole < end) {
      const std::byte* at = row + whole * kBytes;
      // Behind the columns are others, except at the end.
      alignas(kVectorBytes) Key padded[kLanes] = {};
      if ((count - 1 - i) * pitch < kLanes) {
        std::memcpy(padded, at, static_cast<size_t>(end - whole) * sizeof(Key));
        at = reinterpret_cast<const std::byte*>(padded);
      }
      const auto bits = LoadElements(d, at);
      const auto lanes = hn::FirstN(d, static_cast<size_t>(end - whole));
      const auto exceed = hn::And(
          lanes,
          vector_encoder.Exceed(bits, hn::Load(d, state.limits + whole)));
      if (filling || !hn::AllFalse(d, exceed)) {
        // A key of 0 exceeds none: the lanes behind may be columns of a wider
        // row.
        insert(hn::IfThenElseZero(lanes, vector_encoder.Keys(bits)), whole);
      }
    }
  }
}

/// Kernels::feed_columns.
template <class Key, bool kFloat>
void FeedColumns(const SortKeyEncoder<Key, kFloat>& encoder,
                 const ColumnState<Key>& state, const std::byte* elements,
                 int64_t count, int64_t pitch, int64_t first) {
  constexpr int64_t kWidth = kStrip * hn::MaxLanes(Tag<Key>());
  const VectorEncoder<Key, kFloat> vector_encoder(encoder);
  for (int64_t begin = 0; begin < state.columns; begin += kWidth) {
    FeedStrip(vector_encoder, state, elements, count, pitch, first, begin,
              std::min(begin + kWidth, state.columns));
  }
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once for each instruction set
