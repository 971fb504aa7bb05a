// Arithmetic on sizes that a stranger sent.
#pragma once

#include <cstdint>

namespace topk {

/// Sets *product to a * b and returns true, or returns false on overflow.
inline bool CheckedMultiply(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Sets *sum to a + b and returns true, or returns false on overflow.
inline bool CheckedAdd(int64_t a, int64_t b, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/// Sets *rounded to the least multiple of 4 that is >= bytes and returns true,
/// or returns false on overflow. REQUIRES: bytes >= 0.
inline bool CheckedRoundUp4(int64_t bytes, int64_t* rounded) {
  if (!CheckedAdd(bytes, 3, rounded)) return false;
  *rounded &= ~int64_t{3};
  return true;
}

}  // namespace topk
