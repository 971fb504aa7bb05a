// From a plan to the key map, and so to the loops, of its element type.
#pragma once

#include <utility>

#include "core/base/dtype.h"
#include "core/base/key_map.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Calls `fn` with the KeyMap of an element type and direction. The
/// types share eight maps: a width, and whether it is a float.
template <class Fn>
auto WithKeyMap(const DTypeInfo& type, bool largest, Fn fn) {
  switch (type.bytes * 2 + (type.is_float ? 1 : 0)) {
    case 2:
      return fn(KeyMap<uint8_t, false>(type, largest));
    case 3:
      return fn(KeyMap<uint8_t, true>(type, largest));
    case 4:
      return fn(KeyMap<uint16_t, false>(type, largest));
    case 5:
      return fn(KeyMap<uint16_t, true>(type, largest));
    case 8:
      return fn(KeyMap<uint32_t, false>(type, largest));
    case 9:
      return fn(KeyMap<uint32_t, true>(type, largest));
    case 16:
      return fn(KeyMap<uint64_t, false>(type, largest));
    default:
      return fn(KeyMap<uint64_t, true>(type, largest));
  }
}

/// The same, of a plan's.
template <class Fn>
auto WithKeyMap(const Plan& plan, Fn fn) {
  return WithKeyMap(InfoOf(plan.dtype), plan.direction == Direction::kLargest,
                    std::move(fn));
}

}  // namespace topk::cpu
