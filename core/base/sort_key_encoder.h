// Encodes elements as unsigned keys that sort in rank order. This file alone
// defines the order of NaNs, signed zeros and negative numbers, for all
// backends. Limited to constexpr C++17, so that device compilers accept it.
#pragma once

namespace topk {

/// Maps the raw bits of an element to an unsigned key. Greater keys rank first.
/// For LARGEST, -0 equals +0, and all NaNs are equal and rank first. For
/// SMALLEST, the order is reversed, so NaNs rank last.
///
/// Integer types of the same width share an instantiation, as do float types.
template <class Key, bool kFloat>
struct SortKeyEncoder {
  Key sign;
  Key infinity;
  /// All ones for SMALLEST, 0 for LARGEST.
  Key flip;

  /// `type` is a DTypeInfo, or any type with members `sign` and `infinity`.
  template <class Type>
  constexpr SortKeyEncoder(const Type& type, bool largest)
      : sign(static_cast<Key>(type.sign)),
        infinity(static_cast<Key>(type.infinity)),
        flip(largest ? Key{0} : static_cast<Key>(~Key{0})) {}

  constexpr Key operator()(Key bits) const {
    if constexpr (kFloat) {
      // The key is `sign` + magnitude for positive numbers, and `sign` -
      // magnitude for negative numbers.
      Key key = static_cast<Key>(bits & sign ? 0 - bits : bits | sign);
      if ((bits & ~sign) > infinity) key = static_cast<Key>(~Key{0});
      return static_cast<Key>(key ^ flip);
    } else {
      return static_cast<Key>(bits ^ sign ^ flip);
    }
  }

  /// Returns true if elements with different bits (zeros, NaNs) share this key.
  constexpr bool IsShared(Key key) const {
    if constexpr (!kFloat) return false;
    const Key ordered = static_cast<Key>(key ^ flip);
    return ordered == sign || ordered == static_cast<Key>(~Key{0});
  }

  /// The inverse of operator(). REQUIRES: !IsShared(key).
  constexpr Key Bits(Key key) const {
    if constexpr (!kFloat) return static_cast<Key>(key ^ sign ^ flip);
    const Key ordered = static_cast<Key>(key ^ flip);
    return static_cast<Key>(ordered & sign ? ordered ^ sign : 0 - ordered);
  }
};

}  // namespace topk
