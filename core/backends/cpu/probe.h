// The test whether an element exceeds a bound. In a long row nearly all
// elements fail it and need no further work.
#pragma once

#include <algorithm>

#include "core/base/sort_key_encoder.h"

namespace topk::cpu {

/// A comparison of raw bits that stands for one of keys: an element's key
/// exceeds a bound iff
///
///   ((bits ^ flip) > limit) != (bits > nan)      (all unsigned)
///
/// which is three vector instructions, where the key itself takes nine.
template <class Key>
struct Probe {
  Key flip;
  Key limit;
  /// Floats: the bits of -infinity, above which are the NaNs with a sign.
  /// Integers: all ones, which nothing exceeds.
  Key nan;
};

/// Returns the probe of `key > bound`. REQUIRES: bound is not all ones (nothing
/// exceeds that).
///
/// Integers: the key is the bits, flipped. Floats: the numbers are in the order
/// of their keys on each side of zero, in that of the bits or against it, so
/// that one comparison finds the numbers beyond a bound; the bound is moved to
/// where no number lies between, so that both zeros and all NaNs of a sign fall
/// on one side. For NaNs with a sign its result is wrong in both directions,
/// and the second comparison inverts it. Tests: unit/probe_test.cc.
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
      if (bound == static_cast<Key>(sign - 1)) --bound;  // let -0 in with +0
      return {bound >= sign ? sign : kOnes, bound, nan};
    }
    // Smallest: below the complement.
    Key below = std::clamp(static_cast<Key>(~bound), lowest,
                           static_cast<Key>(highest + 1));
    if (below == sign) --below;  // keep -0 out with +0
    return {below > sign ? static_cast<Key>(~sign) : Key{0},
            static_cast<Key>(~below), nan};
  }
}

/// Returns a bound that is reached by the elements whose maxima (raise_maxima)
/// reach `maximum`.
template <class Key, bool kFloat>
Key BoundFrom(const SortKeyEncoder<Key, kFloat>& encoder, Key maximum) {
  // Among the smallest a maximum takes -0 for less than +0.
  const auto minus_zero = static_cast<Key>((encoder.sign - 1) ^ encoder.flip);
  const bool lower = kFloat && encoder.flip != 0 && maximum == minus_zero;
  return static_cast<Key>(maximum - (lower ? 1 : 0));
}

}  // namespace topk::cpu
