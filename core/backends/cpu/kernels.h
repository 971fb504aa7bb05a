// The inner loops, compiled once for each instruction set: what they do, and a
// table of them for each. They know neither plans nor threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "core/backends/cpu/probe.h"
#include "core/base/sort_key_encoder.h"

namespace topk::cpu {

/// How far a scan came.
struct Scanned {
  int64_t elements;  ///< of the row
  int64_t found;     ///< positions written
};

/// Rows that lie one after another, for SelectShortRows.
template <class Key>
struct ShortRows {
  const std::byte* rows;  ///< unaligned; [count, n]
  int64_t count;
  int64_t n;
  int64_t k;
  bool by_index;       ///< arrange by index, else by rank
  std::byte* values;   ///< [count, k], or null where not wanted
  std::byte* indices;  ///< [count, k], or null where not wanted
  int index_bytes;     ///< 4 or 8
  uint64_t offset;     ///< added to every index
};

/// No vector is longer, in bytes.
inline constexpr int64_t kVectorBytes = 64;

/// Columns that lie side by side: the k best of each so far, best first, and
/// their indices, in blocks of columns: all of a block lies together. Behind
/// them the limit of each column, which only the kernel reads.
template <class Key>
struct ColumnState {
  /// How many columns a block has.
  static constexpr int64_t kBlock =
      kVectorBytes / static_cast<int64_t>(sizeof(Key));

  Key* blocks;      ///< [blocks, keys or indices, k, kBlock], aligned
  Key* limits;      ///< [blocks, kBlock], aligned
  int64_t columns;  ///< how many there are
  int64_t k;

  /// The state of `columns` columns in `memory`, which has Elements() of them.
  static ColumnState In(Key* memory, int64_t columns, int64_t k) {
    return {memory, memory + Blocks(columns) * 2 * k * kBlock, columns, k};
  }
  static int64_t Elements(int64_t columns, int64_t k) {
    return Blocks(columns) * (2 * k + 1) * kBlock;
  }

  /// Where a column's key of rank j is; its index is k * kBlock further on.
  Key* at(int64_t column, int64_t j) const {
    return blocks + (column / kBlock * 2 * k + j) * kBlock + column % kBlock;
  }

 private:
  static int64_t Blocks(int64_t columns) {
    return (columns + kBlock - 1) / kBlock;
  }
};

/// Positions that Scan may write beyond those it found.
inline constexpr int64_t kScanSlack = 128;
/// SelectShortRows takes k up to this, and n up to that.
inline constexpr int64_t kShortK = 16;
inline constexpr int64_t kShortN = 4096;
/// The maximum number of keys for rank.
inline constexpr int64_t kMaxRankCount = 64;
/// FeedColumns takes k up to this.
inline constexpr int64_t kColumnK = 32;

/// The kernels of one instruction set for one kind of key.
template <class Key, bool kFloat>
struct Kernels {
  using Encoder = SortKeyEncoder<Key, kFloat>;

  /// Writes the positions of the elements that pass the probe, in order, and
  /// stops when all were scanned or when less than
  /// kScanSlack of `room` is left. REQUIRES: room >= kScanSlack.
  Scanned (*scan)(const Probe<Key>& probe, const std::byte* elements,
                  int64_t count, uint32_t* positions, int64_t room);

  /// Deals the elements to groups and raises the greatest key of each: at least
  /// r elements reach BoundFrom() the r-th greatest of these, if that is the
  /// key of a number; NaNs are not counted. A remainder that does not fill a
  /// vector is left out. REQUIRES: `groups` fills whole vectors (kVectorBytes).
  void (*raise_maxima)(const Encoder& encoder, const std::byte* elements,
                       int64_t count, Key* maxima, int64_t groups);

  /// Returns a key that exactly k of the keys reach, or else (ties) the k-th
  /// greatest key. 1 <= k <= count.
  Key (*kth)(const Key* keys, int64_t count, int64_t k);

  /// Writes which of `count` neighboring elements have a key that exceeds the
  /// bound with the same number, in order. `columns` must have kScanSlack more
  /// room than there are elements. Returns the number of elements found.
  int64_t (*scan_columns)(const Encoder& encoder, const std::byte* elements,
                          int64_t count, const Key* bounds, uint32_t* columns);

  /// Writes how many keys rank before each: the greater, and the equal in front
  /// of it. REQUIRES: count <= kMaxRankCount; both aligned, with room for whole
  /// vectors.
  void (*rank)(const Key* keys, int64_t count, Key* ranks);

  /// Selects from rows one after another, from `begin` on, until all are done
  /// or one needs the long way; returns the first that is not done.
  int64_t (*select_short_rows)(const Encoder& encoder,
                               const ShortRows<Key>& rows, int64_t begin);

  /// Takes `count` rows of `state.columns` elements, `pitch` elements apart,
  /// with the indices first, first + 1, ... Those below k must come first, to
  /// fill the state. Null for keys of 8 and 16 bits.
  void (*feed_columns)(const Encoder& encoder, const ColumnState<Key>& state,
                       const std::byte* elements, int64_t count, int64_t pitch,
                       int64_t first);

  /// Copies `rows` rows of `columns` elements to `columns` rows of `rows`
  /// elements. Rows are a pitch apart, in elements.
  void (*transpose)(const std::byte* elements, int64_t rows, int64_t columns,
                    int64_t pitch, std::byte* transposed,
                    int64_t transposed_pitch);

  /// Unpacks `count` bytes of two elements each, as Unpack() of
  /// core/base/packing.h does. Null unless keys have 8 bits.
  void (*unpack_halves)(const std::byte* packed, int64_t count,
                        std::byte* elements);
};

/// The kernels of one instruction set.
using KernelTable =
    std::tuple<Kernels<uint8_t, false>, Kernels<uint8_t, true>,
               Kernels<uint16_t, false>, Kernels<uint16_t, true>,
               Kernels<uint32_t, false>, Kernels<uint32_t, true>,
               Kernels<uint64_t, false>, Kernels<uint64_t, true>>;

}  // namespace topk::cpu
