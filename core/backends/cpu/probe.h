// Tests whether an element exceeds a bound. In a long row, nearly all elements
// fail this test and need no further work.
#pragma once

#include <algorithm>

#include "core/base/sort_key_encoder.h"

namespace topk::cpu {

/// A test on raw bits that replaces a comparison of keys. An element's key
/// exceeds a bound iff
///
///   ((bits ^ flip) > limit) != (bits > nan)      (all unsigned)
///
/// The test takes three vector instructions. Computing the key takes nine.
template <class Key>
struct Probe {
  Key flip;
  Key limit;
  /// For floats, the bits of -infinity. Elements with greater bits, as an
  /// unsigned integer, are NaNs with the sign bit set. For integers, all ones,
  /// so that no element is greater.
  Key nan;
};

/// Returns the probe for `key > bound`. REQUIRES: bound is not all ones, which
/// nothing exceeds.
///
/// Integers: the key is the bits, XORed with a constant. Floats: on each side
/// of zero, numbers have the order of their bits or the reverse order, so a
/// single comparison finds the numbers beyond a bound. The bound is first
/// moved, past values that no number has, so that both zeros are on the same
/// side of it, and so are all NaNs of one sign. For NaNs with the sign bit set,
/// the first comparison is always wrong, and the second comparison inverts it.
/// Tests: unit/probe_test.cc.
template <class Key, bool kFloat>
Probe<Key> ProbeAbove(const SortKeyEncoder<Key, kFloat>& encoder, Key bound) {
  constexpr Key kOnes = static_cast<Key>(~Key{0});
  if constexpr (!kFloat) {
    return {static_cast<Key>(encoder.sign ^ encoder.flip), bound, kOnes};
  } else {
    const Key sign = encoder.sign;
    const Key highest =
        static_cast<Key>(sign | encoder.infinity);  // key of +inf
    const Key lowest = static_cast<Key>(~highest);  // key of -inf
    const Key nan = highest;                        // also the bits of -inf
    if (encoder.flip == 0) {
      bound = std::clamp(bound, static_cast<Key>(lowest - 1), highest);
      if (bound == static_cast<Key>(sign - 1)) --bound;  // -0 passes like +0
      return {bound >= sign ? sign : kOnes, bound, nan};
    }
    // For SMALLEST, keys are complemented: elements below ~bound pass.
    Key below = std::clamp(static_cast<Key>(~bound), lowest,
                           static_cast<Key>(highest + 1));
    if (below == sign) --below;  // -0 fails like +0
    return {below > sign ? static_cast<Key>(~sign) : Key{0},
            static_cast<Key>(~below), nan};
  }
}

/// Converts a maximum of Kernels::raise_maxima to a bound: the keys of all
/// elements that raise_maxima ranks at `maximum` or higher are >= this bound.
template <class Key, bool kFloat>
Key BoundFrom(const SortKeyEncoder<Key, kFloat>& encoder, Key maximum) {
  // For SMALLEST, raise_maxima ranks -0 before +0, although they are equal.
  const auto minus_zero = static_cast<Key>((encoder.sign - 1) ^ encoder.flip);
  const bool lower = kFloat && encoder.flip != 0 && maximum == minus_zero;
  return static_cast<Key>(maximum - (lower ? 1 : 0));
}

}  // namespace topk::cpu
