// Vectors of elements and of their keys. kernels.cc includes this file, and
// then the other files of this folder, once for each instruction set. The files
// therefore have no include guards, and do not include each other.

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/probe.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Highway's tag type for full vectors of keys.
template <class Key>
using Tag = hn::ScalableTag<Key>;

/// The number of elements that are scanned at a time: one for each bit of a
/// mask word.
inline constexpr int64_t kWord = 64;

/// Loads elements from an unaligned address.
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const std::byte* elements) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(elements));
}

/// Returns the minimum of a vector's lanes.
template <class D>
HWY_INLINE hn::TFromD<D> LeastLane(D d, hn::Vec<D> v) {
  if constexpr (sizeof(hn::TFromD<D>) >= 4) {
    return hn::GetLane(hn::MinOfLanes(d, v));
  }
  alignas(kVectorBytes) hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  hn::TFromD<D> least = lanes[0];
  for (const auto lane : lanes) least = std::min(least, lane);
  return least;
}

/// Returns the bits of a mask. Lane 0 is the lowest bit.
template <class D, class M>
HWY_INLINE uint64_t MaskBits(D d, M mask) {
  uint64_t bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

/// Returns a word with one mask bit for each of kWord elements. mask(i) must
/// return the mask of the vector that begins with element i.
template <class D, class MaskAt>
HWY_INLINE uint64_t WordBits(D d, const MaskAt& mask) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
#if HWY_TARGET == HWY_AVX3
  if constexpr (kLanes == 16) {  // half the instructions of the loop
    const auto pair = [&](int64_t i) HWY_ATTR {
      return _mm512_kunpackw(mask(i + kLanes).raw, mask(i).raw);
    };
    return _cvtmask64_u64(_mm512_kunpackd(pair(2 * kLanes), pair(0)));
  }
#elif HWY_TARGET == HWY_AVX2
  // Highway's masks of 16-bit lanes need PEXT, which is slow before Zen 3.
  if constexpr (sizeof(hn::TFromD<D>) == 2) {
    const auto pair = [&](int64_t i) HWY_ATTR -> uint64_t {
      const __m256i bytes =
          _mm256_packs_epi16(mask(i).raw, mask(i + kLanes).raw);
      return static_cast<uint32_t>(_mm256_movemask_epi8(
          _mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0))));
    };
    return pair(0) | pair(2 * kLanes) << 32;
  }
#endif
  uint64_t bits = 0;
  for (int64_t i = 0; i < kWord; i += kLanes) bits |= MaskBits(d, mask(i)) << i;
  return bits;
}

/// The vector version of SortKeyEncoder.
template <class Key, bool kFloat>
class VectorEncoder {
 public:
  using D = Tag<Key>;
  using V = hn::Vec<D>;

  explicit VectorEncoder(const SortKeyEncoder<Key, kFloat>& encoder)
      : encoder_(encoder),
        sign_(hn::Set(D(), encoder.sign)),
        infinity_(hn::Set(D(), encoder.infinity)),
        flip_(hn::Set(D(), encoder.flip)),
        sign_flip_(
            hn::Set(D(), static_cast<Key>(encoder.sign ^ encoder.flip))) {}

  HWY_INLINE V Keys(V bits) const {
    const D d;
    if constexpr (kFloat) {
      const hn::RebindToSigned<D> s;
      const V magnitude = hn::AndNot(sign_, bits);
      const V negative =
          hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(s, bits)));
      const V number = hn::Sub(hn::Xor(magnitude, negative), negative);
      const auto nan = hn::RebindMask(
          d, hn::Gt(hn::BitCast(s, magnitude), hn::BitCast(s, infinity_)));
      return hn::IfThenElse(nan, hn::Not(flip_), hn::Xor(number, sign_flip_));
    } else {
      return hn::Xor(bits, sign_flip_);
    }
  }

  /// Returns a mask of the keys that are shared by several bit patterns, i.e.
  /// the keys of zeros and NaNs.
  HWY_INLINE hn::Mask<D> Shared(V keys) const {
    const D d;
    if constexpr (!kFloat) return hn::FirstN(d, 0);
    const V ordered = hn::Xor(keys, flip_);
    const V ones = hn::Set(d, static_cast<Key>(~Key{0}));
    return hn::Or(hn::Eq(ordered, sign_), hn::Eq(ordered, ones));
  }

  /// Returns the bits of the elements with these keys. `Other` may differ from
  /// D. If several bit patterns share a key, returns one of the bit patterns.
  template <class Other>
  HWY_INLINE hn::Vec<Other> Bits(Other d, hn::Vec<Other> keys) const {
    if constexpr (kFloat) {
      const auto sign = hn::Set(d, encoder_.sign);
      const auto ordered = hn::Xor(keys, hn::Set(d, encoder_.flip));
      return hn::IfThenElse(hn::TestBit(ordered, sign), hn::Xor(ordered, sign),
                            hn::Sub(hn::Zero(d), ordered));
    } else {
      return hn::Xor(
          keys, hn::Set(d, static_cast<Key>(encoder_.sign ^ encoder_.flip)));
    }
  }

  /// The type for comparing elements as numbers, which is faster than comparing
  /// keys. Floats stay floats, but are negated for SMALLEST. Integers become
  /// unsigned integers. REQUIRES: floats have 32 or 64 bits.
  using Number = std::conditional_t<
      kFloat, std::conditional_t<sizeof(Key) == 8, double, float>, Key>;
  HWY_INLINE hn::Vec<Tag<Number>> Numbers(V bits) const {
    return hn::BitCast(
        Tag<Number>(),
        hn::Xor(bits, kFloat ? hn::And(flip_, sign_) : sign_flip_));
  }

  /// Returns a mask that includes all NaNs and all elements above `numbers`.
  HWY_INLINE hn::Mask<D> MayExceed(V bits, hn::Vec<Tag<Number>> numbers) const {
    if constexpr (kFloat) {
      return hn::Not(hn::RebindMask(D(), hn::Le(Numbers(bits), numbers)));
    } else {
      return hn::Gt(Numbers(bits), numbers);
    }
  }

 private:
  const SortKeyEncoder<Key, kFloat> encoder_;
  V sign_;
  V infinity_;
  V flip_;
  V sign_flip_;
};

/// The vector version of Probe.
template <class Key>
class VectorProbe {
 public:
  using D = Tag<Key>;
  using V = hn::Vec<D>;

  explicit VectorProbe(const Probe<Key>& probe)
      : flip_(hn::Set(D(), probe.flip)),
        limit_(hn::Set(D(), probe.limit)),
        nan_(hn::Set(D(), probe.nan)) {}

  /// Tests 64 elements. Returns a mask of those that exceed the probe's bound.
  HWY_INLINE uint64_t Word(const std::byte* elements) const {
    const D d;
    return WordBits(d, [&](int64_t i) HWY_ATTR {
      const V x = LoadElements(d, elements + i * sizeof(Key));
      return hn::Xor(hn::Gt(hn::Xor(x, flip_), limit_), hn::Gt(x, nan_));
    });
  }

  /// Returns whether any element of the next kVectors vectors may exceed the
  /// probe's bound. Fast, because only the maximum of each lane is tested.
  template <int kVectors>
  HWY_INLINE bool AnyMayExceed(const std::byte* elements) const {
    const D d;
    constexpr int64_t kLanes = hn::MaxLanes(D());
    const auto load = [elements, d](int64_t i) HWY_ATTR {
      return LoadElements(d, elements + i * kLanes * sizeof(Key));
    };
    V nan0 = load(0), nan1 = load(1);
    V number0 = hn::Xor(nan0, flip_), number1 = hn::Xor(nan1, flip_);
    for (int64_t i = 2; i < kVectors; i += 2) {
      const V x0 = load(i);
      const V x1 = load(i + 1);
      number0 = hn::Max(number0, hn::Xor(x0, flip_));
      number1 = hn::Max(number1, hn::Xor(x1, flip_));
      nan0 = hn::Max(nan0, x0);
      nan1 = hn::Max(nan1, x1);
    }
    return !hn::AllFalse(d, hn::Or(hn::Gt(hn::Max(number0, number1), limit_),
                                   hn::Gt(hn::Max(nan0, nan1), nan_)));
  }

 private:
  V flip_;
  V limit_;
  V nan_;
};

/// Writes first + i for every bit i that is set, in order, followed by up to 6
/// unspecified positions. Returns the number of set bits.
HWY_INLINE int64_t AppendPositions(uint64_t bits, uint32_t first,
                                   uint32_t* positions) {
  constexpr int64_t kFew = 6;
  const auto count = static_cast<int64_t>(hwy::PopCount(bits));
  const auto append = [&](int64_t i) {
    // Set the top bit, because counting the trailing zeros of 0 is undefined.
    positions[i] =
        first + static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero64(
                    bits | (uint64_t{1} << 63)));
    bits &= bits - 1;
  };
  // Always append kFew positions, so that the common case needs no branch.
  for (int64_t i = 0; i < kFew; ++i) append(i);
  for (int64_t i = kFew; i < count; ++i) append(i);
  return count;
}

/// A copy of `count` elements, padded with zeros to kWord elements.
template <class Key>
struct PaddedWord {
  PaddedWord(const std::byte* elements, int64_t count) {
    std::memset(bytes, 0, sizeof(bytes));
    std::memcpy(bytes, elements, static_cast<size_t>(count) * sizeof(Key));
  }
  alignas(kVectorBytes) std::byte bytes[kWord * sizeof(Key)];
};

/// Returns a word whose lowest `count` bits are set.
HWY_INLINE uint64_t FirstBits(int64_t count) {
  return count >= kWord ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
