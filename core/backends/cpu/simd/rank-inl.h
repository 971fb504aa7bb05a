// Sorts a few keys by counting.
//
// Algorithm: counts for each key how many keys rank before it: the greater
// ones, and the equal ones in front of it. The count is the key's position.
//
// Why: comparing each key with all others is quadratic, but needs no branches,
// moves or waits, and handles a vector at a time. 50 keys take 0.1 us, a tenth
// of the radix sort (rank_sort.h).
//
// When: short rows, and outputs of k <= kMaxRankCount. Tests: conformance/.
#if defined(TOPK_SIMD_RANK) == defined(HWY_TARGET_TOGGLE)
#ifdef TOPK_SIMD_RANK
#undef TOPK_SIMD_RANK
#else
#define TOPK_SIMD_RANK
#endif

#include "core/backends/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Kernels::rank.
template <class Key>
void Rank(const Key* keys, int64_t count, Key* ranks) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  for (int64_t v = 0; v < count; v += kLanes) {
    const auto key = hn::Load(d, keys + v);
    const auto place = hn::Iota(d, static_cast<Key>(v));
    auto rank = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) {
      const auto other = hn::Set(d, keys[i]);
      const auto before =
          hn::Or(hn::Gt(other, key),
                 hn::And(hn::Eq(other, key),
                         hn::Gt(place, hn::Set(d, static_cast<Key>(i)))));
      rank = hn::Sub(rank, hn::VecFromMask(d, before));  // a true lane is -1
    }
    hn::Store(rank, d, ranks + v);
  }
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once for each instruction set
