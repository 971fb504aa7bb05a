// Selects a SortKeyEncoder instantiation at run time.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/sort_key_encoder.h"
#include "topk/order.h"

namespace topk {

/// Calls `fn` with the SortKeyEncoder for parameters.dtype and
/// parameters.direction. `parameters` has these two members, e.g. a Plan. There
/// are eight instantiations: integers and floats in four widths.
template <class Parameters, class Fn>
auto WithSortKeyEncoder(const Parameters& parameters, const Fn& fn) {
  const DTypeInfo& type = InfoOf(parameters.dtype);
  const bool largest = parameters.direction == Direction::kLargest;
  const auto call = [&]<class Key>(Key) {
    if (type.is_float) return fn(SortKeyEncoder<Key, true>(type, largest));
    return fn(SortKeyEncoder<Key, false>(type, largest));
  };
  switch (type.bytes) {
    case 1:
      return call(uint8_t{});
    case 2:
      return call(uint16_t{});
    case 4:
      return call(uint32_t{});
    default:
      return call(uint64_t{});
  }
}

}  // namespace topk
