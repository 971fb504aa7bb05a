// Finds the elements of a row that exceed a bound, or those that exceed the
// bounds of their columns (ScanColumns).
//
// Algorithm of Scan: a probe (probe.h) first tests the maximum of several
// vectors. The vectors are tested one by one only if the maximum passes. The
// results are words of mask bits, and the positions of the elements that pass
// are appended.
//
// Why: with a good bound, nearly every block fails the first test. This test
// costs two or three instructions per vector, which is less than the transfer
// from memory. Positions are in ascending order, so ties are resolved correctly
// (selection.h).
//
// When: row_feed.h has a bound, and slices.h a bound for each column. Costs:
// the read, and 10 to 20 ns for each element that passes.

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// The minimum number of vectors in a block.
inline constexpr int64_t kBlockVectors = 4;

/// Implements Kernels::scan.
template <class Key, bool kFloat>
Scanned Scan(const SortKeyEncoder<Key, kFloat>& encoder, Key bound,
             const std::byte* elements, int64_t count, uint32_t* positions,
             int64_t room) {
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  constexpr int64_t kBlock = std::max(kWord, kBlockVectors * kLanes);
  const VectorProbe<Key> probe(ProbeAbove(encoder, bound));
  const auto at = [elements](int64_t i) {
    return elements + i * static_cast<int64_t>(sizeof(Key));
  };
  int64_t i = 0;
  int64_t found = 0;
  // Scans whole words up to `end`. Returns false if `positions` is full.
  const auto look = [&](int64_t end) HWY_ATTR {
    for (; i + kWord <= end; i += kWord) {
      if (found + kScanSlack > room) return false;
      found += AppendPositions(probe.Word(at(i)), static_cast<uint32_t>(i),
                               positions + found);
    }
    return true;
  };
  while (i + kBlock <= count) {
    if (!probe.template AnyMayExceed<kBlock / kLanes>(at(i))) {
      i += kBlock;
    } else if (!look(i + kBlock)) {
      return {i, found};
    }
  }
  if (!look(count)) return {i, found};
  if (i < count) {
    if (found + kScanSlack > room) return {i, found};
    const PaddedWord<Key> rest(at(i), count - i);
    found += AppendPositions(probe.Word(rest.bytes) & FirstBits(count - i),
                             static_cast<uint32_t>(i), positions + found);
  }
  return {count, found};
}

/// Implements Kernels::scan_columns.
template <class Key, bool kFloat>
int64_t ScanColumns(const SortKeyEncoder<Key, kFloat>& encoder,
                    const std::byte* elements, int64_t count, const Key* bounds,
                    uint32_t* columns) {
  const Tag<Key> d;
  const VectorEncoder<Key, kFloat> vector_encoder(encoder);
  const auto word = [&](const std::byte* row, const Key* bound) HWY_ATTR {
    return WordBits(d, [&](int64_t i) HWY_ATTR {
      const auto bits = LoadElements(d, row + i * sizeof(Key));
      return hn::Gt(vector_encoder.Keys(bits), hn::LoadU(d, bound + i));
    });
  };
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    found += AppendPositions(word(elements + i * sizeof(Key), bounds + i),
                             static_cast<uint32_t>(i), columns + found);
  }
  if (i < count) {
    const PaddedWord<Key> row(elements + i * sizeof(Key), count - i);
    const PaddedWord<Key> bound(reinterpret_cast<const std::byte*>(bounds + i),
                                count - i);
    const uint64_t bits =
        word(row.bytes, reinterpret_cast<const Key*>(bound.bytes));
    found += AppendPositions(bits & FirstBits(count - i),
                             static_cast<uint32_t>(i), columns + found);
  }
  return found;
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
