// Tests whether an element exceeds a bound. In a long row, nearly all elements
// fail this test and need no further work.
#pragma once

#include <algorithm>

#include "core/base/sort_key_encoder.h"

namespace topk::cpu {

/// Tests whether an element's key exceeds a bound, without computing the key.
/// The result is computed from the element's raw bits, as unsigned numbers:
///
///   ((bits ^ flip) > limit) != (bits > nan)
///
/// The test takes three vector instructions. Computing the key takes nine.
template <class Key>
struct Probe {
  Key flip;
  Key limit;
  /// For floats, the bits of -infinity. Only negative NaNs have greater bits.
  /// For integers, all ones.
  Key nan;
};

/// Returns the probe for `key > bound`. REQUIRES: bound is not all ones, which
/// no key exceeds.
///
/// Integers: the key is the bits, XORed with a constant. Floats: on each side
/// of zero, numbers are in the order of their bits or in the reverse order, so
/// one comparison finds the numbers that exceed a bound. The bound is first
/// clamped, so that all NaNs of one sign are on the same side of the bound. For
/// NaNs with the sign bit set, the first comparison is always wrong, and the
/// second comparison inverts the result. SMALLEST inverts the result of the
/// first comparison. Tests: conformance/.
template <class Key, bool kFloat>
Probe<Key> ProbeAbove(const SortKeyEncoder<Key, kFloat>& encoder, Key bound) {
  constexpr Key kOnes = static_cast<Key>(~Key{0});
  if constexpr (!kFloat) {
    return {static_cast<Key>(encoder.sign ^ encoder.flip), bound, kOnes};
  } else {
    const Key sign = encoder.sign;
    // The bits of -infinity. For LARGEST, also the key of +infinity.
    const Key highest = static_cast<Key>(sign | encoder.infinity);
    const Key below_all = static_cast<Key>(sign - encoder.infinity - 1);
    const bool smallest = encoder.flip != 0;
    bound = std::clamp(smallest ? static_cast<Key>(~bound - 1) : bound,
                       below_all, highest);
    Probe<Key> probe = {sign, bound, highest};
    if (bound < sign) probe = {kOnes, static_cast<Key>(bound - 1), highest};
    if (smallest) {
      probe.flip = static_cast<Key>(~probe.flip);
      probe.limit = static_cast<Key>(~probe.limit - 1);
    }
    return probe;
  }
}

}  // namespace topk::cpu
