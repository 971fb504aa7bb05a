// Selects the instantiation of SortKeyEncoder for an element type at run time.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/sort_key_encoder.h"

namespace topk {

/// Calls `fn` with the SortKeyEncoder of an element type and direction. There
/// are eight instantiations: four widths, each for integers and for floats.
template <class Fn>
auto WithSortKeyEncoder(const DTypeInfo& type, bool largest, Fn fn) {
  switch (type.bytes * 2 + (type.is_float ? 1 : 0)) {
    case 2:
      return fn(SortKeyEncoder<uint8_t, false>(type, largest));
    case 3:
      return fn(SortKeyEncoder<uint8_t, true>(type, largest));
    case 4:
      return fn(SortKeyEncoder<uint16_t, false>(type, largest));
    case 5:
      return fn(SortKeyEncoder<uint16_t, true>(type, largest));
    case 8:
      return fn(SortKeyEncoder<uint32_t, false>(type, largest));
    case 9:
      return fn(SortKeyEncoder<uint32_t, true>(type, largest));
    case 16:
      return fn(SortKeyEncoder<uint64_t, false>(type, largest));
    default:
      return fn(SortKeyEncoder<uint64_t, true>(type, largest));
  }
}

}  // namespace topk
