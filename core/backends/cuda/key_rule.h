// The rule that maps an element's bits to a key, as plain data. C++17, because
// device code includes this file.
#pragma once

#include <cstdint>

#include "core/base/sort_key_encoder.h"

namespace topk::cuda {

/// An entry of the type table and a direction.
struct KeyRule {
  /// The type's sign and infinity, shifted to the top bits of the key.
  uint64_t sign = 0;
  uint64_t infinity = 0;
  /// The size of an element, in bytes: 1, 2, 4 or 8.
  int bytes = 4;
  bool is_float = false;
  bool largest = true;
};

/// Returns the rule for a type. `type` is a DTypeInfo or has the same fields.
template <class Type>
constexpr KeyRule RuleOf(const Type& type, bool largest) {
  const int up = (type.bytes <= 4 ? 32 : 64) - 8 * type.bytes;
  return {type.sign << up, type.infinity << up, type.bytes, type.is_float,
          largest};
}

/// Returns the key of an element. Elements with greater keys rank first. Narrow
/// elements are first shifted to the top bits, where they have the order of a
/// wide type, so two kernels serve all types. Key is uint32_t for elements of
/// up to 4 bytes, else uint64_t.
template <class Key>
constexpr Key KeyOf(const KeyRule& rule, Key bits) {
  const int up = static_cast<int>(8 * sizeof(Key)) - 8 * rule.bytes;
  const Key top = static_cast<Key>(bits << up);
  return rule.is_float ? SortKeyEncoder<Key, true>(rule, rule.largest)(top)
                       : SortKeyEncoder<Key, false>(rule, rule.largest)(top);
}

}  // namespace topk::cuda
