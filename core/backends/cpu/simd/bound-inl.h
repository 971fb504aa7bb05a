// Finds lower bounds on the k-th greatest key without sorting.
//
// RaiseMaxima divides the elements into groups and keeps the greatest key of
// each group. Why: the r greatest maxima are the keys of r different elements,
// so the r-th greatest maximum is a lower bound on the r-th greatest key. This
// bound is cheap: updating the maxima takes one instruction more than computing
// the keys. RaiseMaxima is applied to whole rows of medium length, and to
// samples of long rows.
//
// Kth halves the range of keys until exactly k keys are at or above its middle.
// Why: one comparison instruction compares a whole vector, and random keys are
// separated after about log2(n) passes. No input needs more passes than a key
// has bits, so there is no bad order and no bad pivot.
//
// Tests: conformance/conformance_test.cc.

#include <algorithm>

#include "core/backends/cpu/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Implements Kernels::raise_maxima.
template <class Key, bool kFloat>
void RaiseMaxima(const SortKeyEncoder<Key, kFloat>& encoder,
                 const std::byte* elements, int64_t count, Key* maxima,
                 int64_t groups) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  const VectorEncoder<Key, kFloat> vector_encoder(encoder);
  const auto keys_at = [&](int64_t i) HWY_ATTR {
    return vector_encoder.Keys(LoadElements(d, elements + i * sizeof(Key)));
  };
  int64_t i = 0;
  if (groups == kLanes) {  // in registers, to avoid waiting for memory
    auto even = hn::LoadU(d, maxima);
    auto odd = even;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      even = hn::Max(even, keys_at(i));
      odd = hn::Max(odd, keys_at(i + kLanes));
    }
    hn::StoreU(hn::Max(even, odd), d, maxima);
  }
  int64_t group = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Max(hn::LoadU(d, maxima + group), keys_at(i)), d,
               maxima + group);
    group += kLanes;
    if (group == groups) group = 0;
  }
}

/// Implements Kernels::kth.
template <class Key>
Key Kth(const Key* keys, int64_t count, int64_t k,
        const Cancellation* cancellation) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  const int64_t whole = count - count % kLanes;
  // The last keys, padded with zeros. Zeros are never counted, because every
  // `middle` is greater than 0.
  alignas(kVectorBytes) Key rest[kLanes] = {};
  Key low = keys[0];
  Key high = keys[0];
  for (int64_t i = whole; i < count; ++i) {
    rest[i - whole] = keys[i];
    low = std::min(low, keys[i]);
    high = std::max(high, keys[i]);
  }
  auto lows = hn::Set(d, low);
  auto highs = hn::Set(d, high);
  const auto widen = [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; i += kLanes) {
      const auto key = hn::LoadU(d, keys + i);
      lows = hn::Min(lows, key);
      highs = hn::Max(highs, key);
    }
  };
  ForEachBlock(0, whole, kBlockElements, cancellation, widen);
  low = LeastLane(d, lows);
  high = static_cast<Key>(~LeastLane(d, hn::Not(highs)));
  const auto rests = hn::Load(d, rest);
  while (low < high) {  // at least k keys are >= low, fewer are > high
    const Key range = static_cast<Key>(high - low);
    const Key middle = static_cast<Key>(low + range / 2 + range % 2);
    const auto below = hn::Set(d, static_cast<Key>(middle - 1));
    size_t reach = hn::CountTrue(d, hn::Gt(rests, below));
    const auto add = [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; i += kLanes) {
        reach += hn::CountTrue(d, hn::Gt(hn::LoadU(d, keys + i), below));
      }
    };
    ForEachBlock(0, whole, kBlockElements, cancellation, add);
    if (reach == static_cast<size_t>(k)) return middle;
    if (reach > static_cast<size_t>(k)) {
      low = middle;
    } else {
      high = static_cast<Key>(middle - 1);
    }
  }
  return low;
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
