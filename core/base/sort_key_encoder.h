// Encodes elements as unsigned keys that sort in the rank order. All backends
// handle NaN, signed zeros and signs here only. C++17, and constexpr
// throughout, so that device compilers can compile it too.
#pragma once

namespace topk {

/// Maps the raw bits of an element to an unsigned key whose descending order
/// is the rank order of semantics: for LARGEST by value, -0 = +0, every NaN
/// equal and first; for SMALLEST the reverse of that.
///
/// Every type of one width and kind shares one instantiation.
template <class Key, bool kFloat>
struct SortKeyEncoder {
  Key sign;
  Key infinity;
  /// All ones for SMALLEST, 0 for LARGEST.
  Key flip;

  /// `type` is a DTypeInfo, or any type with its members `sign` and `infinity`.
  template <class Type>
  constexpr SortKeyEncoder(const Type& type, bool largest)
      : sign(static_cast<Key>(type.sign)),
        infinity(static_cast<Key>(type.infinity)),
        flip(largest ? Key{0} : static_cast<Key>(~Key{0})) {}

  constexpr Key operator()(Key bits) const {
    if constexpr (kFloat) {
      const Key magnitude = static_cast<Key>(bits & ~sign);
      Key key = static_cast<Key>(bits & sign ? ~bits : bits | sign);
      if (magnitude == 0) key = sign;
      if (magnitude > infinity) key = static_cast<Key>(~Key{0});
      return static_cast<Key>(key ^ flip);
    } else {
      return static_cast<Key>(bits ^ sign ^ flip);
    }
  }

  /// Whether elements with different bits share this key: zeros, NaNs.
  constexpr bool IsShared(Key key) const {
    if constexpr (!kFloat) return false;
    const Key ordered = static_cast<Key>(key ^ flip);
    return ordered == sign || ordered == static_cast<Key>(~Key{0});
  }

  /// Returns the bits of the one element with this key.
  /// REQUIRES: !IsShared(key).
  constexpr Key Bits(Key key) const {
    if constexpr (!kFloat) return static_cast<Key>(key ^ sign ^ flip);
    const Key ordered = static_cast<Key>(key ^ flip);
    return static_cast<Key>(ordered & sign ? ordered ^ sign : ~ordered);
  }
};

}  // namespace topk
