// Sorts the lanes of a vector, the greatest first.
//
// Algorithm: a bitonic network. Each step exchanges lanes whose numbers differ
// by the same bits, and keeps the greater in the lower lane.
//
// Why: a step is three instructions, none of which is a branch or an access to
// memory. When: short rows. Tests: unit/algorithms_test.cc.
#if defined(TOPK_SIMD_NETWORK) == defined(HWY_TARGET_TOGGLE)
#ifdef TOPK_SIMD_NETWORK
#undef TOPK_SIMD_NETWORK
#else
#define TOPK_SIMD_NETWORK
#endif

#include "core/backends/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Exchanges each lane of some vectors with lane ^ kBits if that is out of
/// order.
template <int kBits, class D, class V, size_t kVectors>
HWY_INLINE void ExchangeLanes(D d, V (&v)[kVectors]) {
  const hn::RebindToUnsigned<D> lanes;
  using Lane = hn::TFromD<decltype(lanes)>;
  const auto lane = hn::Iota(lanes, 0);
  const auto partner = hn::Xor(lane, hn::Set(lanes, Lane{kBits}));
  const auto lower = hn::RebindMask(d, hn::Lt(lane, partner));
  for (V& x : v) {
    const V other = hn::TableLookupLanes(x, hn::IndicesFromVec(d, partner));
    x = hn::IfThenElse(lower, hn::Max(x, other), hn::Min(x, other));
  }
}

/// Sorts blocks of kBlock lanes, each of which first descends and then ascends,
/// or the reverse.
template <int kBlock, class D, class V, size_t kVectors>
HWY_INLINE void MergeLanes(D d, V (&v)[kVectors]) {
  if constexpr (kBlock > 1) {
    ExchangeLanes<kBlock / 2>(d, v);
    MergeLanes<kBlock / 2>(d, v);
  }
}

/// Sorts blocks of kBlock lanes.
template <int kBlock, class D, class V, size_t kVectors>
HWY_INLINE void SortLanes(D d, V (&v)[kVectors]) {
  if constexpr (kBlock > 1) {
    SortLanes<kBlock / 2>(d, v);
    ExchangeLanes<kBlock - 1>(d, v);
    MergeLanes<kBlock / 2>(d, v);
  }
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once for each instruction set
