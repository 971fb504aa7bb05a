// The interface of the kernels: inner loops that are compiled once for each
// instruction set. Kernels do not depend on plans or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "core/base/cancellation.h"
#include "core/base/sort_key_encoder.h"

namespace topk::cpu {

/// The progress of a scan.
struct Scanned {
  int64_t elements;  ///< elements scanned
  int64_t found;     ///< positions written
};

/// The arguments of SelectShortRows: consecutive rows and their outputs.
template <class Key>
struct ShortRows {
  const std::byte* rows;  ///< [count, n], unaligned
  int64_t count;
  int64_t n;
  int64_t k;
  bool by_index;       ///< order by index rather than by rank
  std::byte* values;   ///< [count, k], or null if not wanted
  std::byte* indices;  ///< [count, k], or null if not wanted
  int index_bytes;     ///< 4 or 8
  uint64_t offset;     ///< added to every index
};

/// The maximum length of a vector, in bytes.
inline constexpr int64_t kVectorBytes = 64;

/// The state of adjacent columns: the k best keys of each column so far, best
/// first, and their indices.
template <class Key>
struct ColumnState {
  /// The number of columns in a block.
  static constexpr int64_t kBlock =
      kVectorBytes / static_cast<int64_t>(sizeof(Key));

  Key* last;        ///< each column's k-th element as VectorEncoder::Number
  Key* blocks;      ///< [blocks, keys or indices, k, kBlock], aligned
  int64_t columns;  ///< the number of columns
  int64_t k;

  /// Returns a state stored in `memory`, an array of size Elements(columns, k).
  static ColumnState In(Key* memory, int64_t columns, int64_t k) {
    return {memory, memory + Elements(columns, 0), columns, k};
  }
  static int64_t Elements(int64_t columns, int64_t k) {
    return (columns + kBlock - 1) / kBlock * (2 * k + 1) * kBlock;
  }

  /// Returns the address of a column's key with rank j. The index of that key
  /// is stored at this address + k * kBlock.
  Key* at(int64_t column, int64_t j) const {
    return blocks + (column / kBlock * 2 * k + j) * kBlock + column % kBlock;
  }
};

/// A scan may overwrite up to this many positions after its results.
inline constexpr int64_t kScanSlack = 128;
/// The maximum k and n for SelectShortRows.
inline constexpr int64_t kShortK = 16;
inline constexpr int64_t kShortN = 4096;
inline constexpr int64_t kShortRowsAtOnce = 64;
/// The maximum number of keys for Rank.
inline constexpr int64_t kMaxRankCount = 64;
/// The maximum k for FeedColumns.
inline constexpr int64_t kColumnK = 32;

/// The kernels of one instruction set for one kind of key.
template <class Key, bool kFloat>
struct Kernels {
  using Encoder = SortKeyEncoder<Key, kFloat>;

  /// Writes the positions of the elements whose keys exceed `bound`, in order.
  /// Stops after the last element, or when fewer than kScanSlack of the `room`
  /// positions are left. REQUIRES: room >= kScanSlack, and `bound` is not all
  /// ones.
  Scanned (*scan)(const Encoder& encoder, Key bound, const std::byte* elements,
                  int64_t count, uint32_t* positions, int64_t room);

  /// Divides the elements into groups, and raises maxima[g] to the greatest key
  /// of group g. At least r elements then have keys >= the r-th greatest
  /// maximum, unless that maximum is 0. Ignores the elements after the last
  /// full vector. REQUIRES: `groups` is a multiple of kVectorBytes /
  /// sizeof(Key).
  void (*raise_maxima)(const Encoder& encoder, const std::byte* elements,
                       int64_t count, Key* maxima, int64_t groups);

  /// Returns a threshold t such that exactly k of the keys are >= t. If ties
  /// prevent this, returns the k-th greatest key. Returns 0 only if that key is
  /// 0. After a cancellation, the result is unspecified. `cancellation` may be
  /// null. REQUIRES: 1 <= k <= count.
  Key (*kth)(const Key* keys, int64_t count, int64_t k,
             const Cancellation* cancellation);

  /// Writes the positions of the elements whose keys exceed their bounds, in
  /// order. Returns the number of positions. REQUIRES: `columns` has room for
  /// `count` + kScanSlack positions.
  int64_t (*scan_columns)(const Encoder& encoder, const std::byte* elements,
                          int64_t count, const Key* bounds, uint32_t* columns);

  /// Writes the rank of each key: the number of greater keys, plus the number
  /// of equal keys before it. REQUIRES: count <= kMaxRankCount. Both arrays are
  /// aligned and have room for whole vectors.
  void (*rank)(const Key* keys, int64_t count, Key* ranks);

  /// Selects from the rows begin .. begin + kShortRowsAtOnce - 1, or up to the
  /// last row. Returns a mask of the rows that are not done, because too many
  /// elements are equal. Bit i is for row begin + i.
  uint64_t (*select_short_rows)(const Encoder& encoder,
                                const ShortRows<Key>& rows, int64_t begin);

  /// Adds the axis positions first .. first + count - 1 to the state. Each
  /// position has state.columns elements. Adjacent positions are `pitch`
  /// elements apart. REQUIRES: positions 0 .. k - 1 are added first, to
  /// initialize the state. The pointer is null for 8-bit and 16-bit keys.
  void (*feed_columns)(const Encoder& encoder, const ColumnState<Key>& state,
                       const std::byte* elements, int64_t count, int64_t pitch,
                       int64_t first);
};

/// The kernels of one instruction set.
struct KernelTable {
  std::tuple<Kernels<uint8_t, false>, Kernels<uint8_t, true>,
             Kernels<uint16_t, false>, Kernels<uint16_t, true>,
             Kernels<uint32_t, false>, Kernels<uint32_t, true>,
             Kernels<uint64_t, false>, Kernels<uint64_t, true>>
      by_key;

  /// Transposes a matrix of `rows` rows and `columns` columns of elements of
  /// `bytes` = 1, 2, 4 or 8 bytes. A pitch is the distance between adjacent
  /// rows of a matrix, in elements.
  void (*transpose)(int bytes, const std::byte* elements, int64_t rows,
                    int64_t columns, int64_t pitch, std::byte* transposed,
                    int64_t transposed_pitch);

  /// Unpacks `count` bytes, each with two elements, like Unpack() in
  /// core/base/packing.h.
  void (*unpack_halves)(const std::byte* packed, int64_t count,
                        std::byte* elements);
};

}  // namespace topk::cpu
