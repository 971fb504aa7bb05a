// Unpacks 4-bit elements to bytes.
//
// Algorithm: bytes are widened to 16-bit words, each word is shifted to where
// its two elements belong, both are combined, and the other bits are masked.
//
// Why: unpacked elements are still in L1, so the number of instructions
// matters: five per vector, about as many as the scan of that vector.
//
// When: every 4-bit type. Other widths are unpacked by base/packing.cc.
//
// Tests: unit/long_slices_test.cc, conformance/.
#if defined(TOPK_SIMD_UNPACK) == defined(HWY_TARGET_TOGGLE)
#ifdef TOPK_SIMD_UNPACK
#undef TOPK_SIMD_UNPACK
#else
#define TOPK_SIMD_UNPACK
#endif

#include "core/backends/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Kernels::unpack_halves.
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

#endif  // once for each instruction set
