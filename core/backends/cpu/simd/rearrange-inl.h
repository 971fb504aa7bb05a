// Transposes columns to rows, and unpacks 4-bit elements to bytes.
//
// Transpose: squares with sides of 16 bytes are transposed in registers,
// because every instruction set can interleave 16 bytes without crossing lanes.
// Each step interleaves the first half of the vectors with the second half.
// Several squares are done in the same columns before the next columns, so that
// whole cache lines are written. Otherwise, if the pitch is a power of two, the
// lines of all columns would compete for a few sets of L1. When: the tiles of
// block_source.h and their outputs. Costs: one instruction per 32-bit element,
// less for smaller elements.
//
// Unpacking: each byte is widened to a 16-bit word. Two shifts move its two
// elements to their places, and the results are combined and masked. The
// elements are still in L1 when read, so the number of instructions matters:
// five per vector, about as many as scanning it takes. When: every 4-bit type.
// Other widths are unpacked by base/packing.cc.

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // has one lane: nothing to interleave
/// Interleaves the first half of the vectors with the second.
template <class D, class V, size_t kVectors, size_t... i>
HWY_INLINE void InterleaveHalves(D d, V (&v)[kVectors],
                                 std::index_sequence<i...>) {
  const V both[] = {hn::InterleaveLower(d, v[i], v[i + kVectors / 2])...,
                    hn::InterleaveUpper(d, v[i], v[i + kVectors / 2])...};
  ((v[2 * i] = both[i], v[2 * i + 1] = both[i + kVectors / 2]), ...);
}
#endif

/// Transposes a square matrix whose rows are the vectors.
template <size_t kStep, class D, class V, size_t kVectors>
HWY_INLINE void TransposeSquare(D d, V (&v)[kVectors]) {
  if constexpr (kStep < kVectors) {
    InterleaveHalves(d, v, std::make_index_sequence<kVectors / 2>());
    TransposeSquare<2 * kStep>(d, v);
  }
}

/// Transposes a matrix of unsigned integers.
template <class Bits>
void TransposeOf(const std::byte* elements, int64_t rows, int64_t columns,
                 int64_t pitch, std::byte* transposed,
                 int64_t transposed_pitch) {
  const hn::CappedTag<Bits, 16 / sizeof(Bits)> d;
  constexpr int64_t kSide = hn::MaxLanes(decltype(d)());
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Bits));
  constexpr int64_t kRows = std::max(kSide, int64_t{16});
  const auto copy = [&](int64_t r, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      std::memcpy(transposed + (c * transposed_pitch + r) * kBytes,
                  elements + (r * pitch + c) * kBytes, sizeof(Bits));
    }
  };
  const int64_t whole_rows = rows - rows % kSide;
  const int64_t whole_columns = columns - columns % kSide;
  for (int64_t begin = 0; begin < whole_rows; begin += kRows) {
    const int64_t end = std::min(begin + kRows, whole_rows);
    for (int64_t c = 0; c < whole_columns; c += kSide) {
      for (int64_t r = begin; r < end; r += kSide) {
        hn::Vec<decltype(d)> v[kSide];
        for (int64_t i = 0; i < kSide; ++i) {
          v[i] = LoadElements(d, elements + ((r + i) * pitch + c) * kBytes);
        }
        TransposeSquare<1>(d, v);
        for (int64_t i = 0; i < kSide; ++i) {
          hn::StoreU(
              v[i], d,
              reinterpret_cast<Bits*>(
                  transposed + ((c + i) * transposed_pitch + r) * kBytes));
        }
      }
    }
  }
  for (int64_t r = 0; r < whole_rows; ++r) copy(r, whole_columns, columns);
  for (int64_t r = whole_rows; r < rows; ++r) copy(r, 0, columns);
}

/// Implements KernelTable::transpose.
inline void Transpose(int bytes, const std::byte* elements, int64_t rows,
                      int64_t columns, int64_t pitch, std::byte* transposed,
                      int64_t transposed_pitch) {
  const auto transpose = [&](auto bits) {
    TransposeOf<decltype(bits)>(elements, rows, columns, pitch, transposed,
                                transposed_pitch);
  };
  switch (bytes) {
    case 1:
      return transpose(uint8_t{});
    case 2:
      return transpose(uint16_t{});
    case 4:
      return transpose(uint32_t{});
    default:
      return transpose(uint64_t{});
  }
}

/// Implements KernelTable::unpack_halves.
inline void UnpackHalves(const std::byte* packed, int64_t count,
                         std::byte* elements) {
  const Tag<uint16_t> words;
  const hn::Rebind<uint8_t, Tag<uint16_t>> narrow;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<uint16_t>());
  const auto high = hn::Set(words, 0xF0F0);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto x = hn::PromoteTo(words, LoadElements(narrow, packed + i));
    const auto both =
        hn::And(hn::Or(hn::ShiftLeft<4>(x), hn::ShiftLeft<8>(x)), high);
    hn::StoreU(both, words, reinterpret_cast<uint16_t*>(elements + 2 * i));
  }
  for (; i < count; ++i) {
    elements[2 * i] = packed[i] << 4;
    elements[2 * i + 1] = packed[i] & std::byte{0xF0};
  }
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
