// Selects along an axis that is not the last, for a small k. Each lane of a
// vector processes one column.
//
// Algorithm: the state has k levels. Level j has the j-th best key of every
// column so far, and the index of that key. The elements of an axis position
// are compared with the last level, one vector of columns at a time. If any
// element of a vector is better, the whole vector is inserted: in each column,
// a level keeps its element, takes the new element, or takes the element of the
// level above.
//
// Why: loads are contiguous even in narrow tensors. A vector without better
// elements costs one comparison, and most vectors have none if n is large
// compared with k. Positions come in ascending order of index and only greater
// keys are inserted, so ties keep the lower index. Software prefetching helps
// because the hardware prefetcher stops at the end of a page and during
// insertions.
//
// A strip of columns is processed for several positions before the next strip,
// so that its state stays in L1. Inserting the elements of several positions
// together was slower, and masked stores were faster only at k 10 and more.
//
// When: keys of 32 and 64 bits, and k <= kColumnK or a lower limit set by the
// chooser. Costs: the read, and about 10 k instructions per inserted vector.

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Inserts a vector with one key per column. Level j of `keys` and `indices`
/// has the j-th best key of each column and its index.
template <class Key, class V>
HWY_INLINE void Insert(V key, Key index, Key* keys, Key* indices,
                       int64_t levels) {
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
}

/// The number of vectors in a strip of columns.
inline constexpr int64_t kStrip = 32;
/// The prefetch distance in rows if there are several strips of columns.
inline constexpr int64_t kRowsAhead = 2;
/// The prefetch distance in bytes if a single strip has all columns.
inline constexpr int64_t kBytesAhead = 8192;

/// Implements FeedColumns() for one strip: the columns begin .. end - 1.
template <class Key, bool kFloat>
HWY_INLINE void FeedStrip(const VectorEncoder<Key, kFloat>& vector_encoder,
                          const ColumnState<Key>& state,
                          const std::byte* elements, int64_t count,
                          int64_t pitch, int64_t first, int64_t begin,
                          int64_t end) {
  using Number = typename VectorEncoder<Key, kFloat>::Number;
  const Tag<Key> d;
  const Tag<Number> numbers;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  constexpr int64_t kBlock = ColumnState<Key>::kBlock;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Key));
  const int64_t vectors = (end - begin) / kLanes;
  const int64_t whole = begin + vectors * kLanes;
  const int64_t ahead = state.columns > kStrip * kLanes
                            ? kRowsAhead * pitch * kBytes
                            : kBytesAhead;
  auto* const last_numbers = reinterpret_cast<Number*>(state.last);
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* row = elements + i * pitch * kBytes;
    const auto index = static_cast<Key>(first + i);
    // Insert the first k elements unconditionally. A comparison with the
    // initial zeros would reject keys of 0.
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
      Insert(key, index, keys, indices, levels);
      if (levels < state.k) return;  // the last level is not initialized yet
      const auto last = hn::Load(d, keys + (state.k - 1) * kBlock);
      hn::Store(vector_encoder.Numbers(vector_encoder.Bits(d, last)), numbers,
                last_numbers + column);
    };
    const auto bits_at = [&](int64_t column) HWY_ATTR {
      return LoadElements(d, row + column * kBytes);
    };
    const auto exceed = [&](auto bits, int64_t column) HWY_ATTR {
      return vector_encoder.MayExceed(bits,
                                      hn::Load(numbers, last_numbers + column));
    };
    // Find all vectors with a better element before inserting any. A branch per
    // vector would have to wait until the vector arrives from memory.
    uint64_t better = filling ? FirstBits(vectors) : 0;
    for (int64_t v = 0; v < vectors && !filling; ++v) {
      const int64_t column = begin + v * kLanes;
      hwy::Prefetch(row + column * kBytes + ahead);
      better |= uint64_t{!hn::AllFalse(d, exceed(bits_at(column), column))}
                << v;
    }
    for (; better != 0; better &= better - 1) {
      const int64_t column =
          begin + kLanes * static_cast<int64_t>(
                               hwy::Num0BitsBelowLS1Bit_Nonzero64(better));
      insert(vector_encoder.Keys(bits_at(column)), column);
    }
    if (whole < end) {
      const std::byte* at = row + whole * kBytes;
      // Copy the end of the tensor, so that a full vector can be loaded.
      alignas(kVectorBytes) Key padded[kLanes] = {};
      if ((count - 1 - i) * pitch < kLanes) {
        std::memcpy(padded, at, static_cast<size_t>(end - whole) * sizeof(Key));
        at = reinterpret_cast<const std::byte*>(padded);
      }
      // Zero the lanes beyond `end`, which may hold elements of other columns.
      // A key of 0 is not greater than any key, so it is not inserted.
      const auto bits = LoadElements(d, at);
      const auto lanes = hn::FirstN(d, static_cast<size_t>(end - whole));
      if (filling || !hn::AllFalse(d, hn::And(lanes, exceed(bits, whole)))) {
        insert(hn::IfThenElseZero(lanes, vector_encoder.Keys(bits)), whole);
      }
    }
  }
}

/// Implements Kernels::feed_columns.
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
