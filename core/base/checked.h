// Checked arithmetic on sizes from untrusted input.
#pragma once

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace topk {

/// Sets *product to a * b and returns true, or returns false on overflow.
inline bool CheckedMultiply(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Sets *sum to a + b and returns true, or returns false on overflow.
inline bool CheckedAdd(int64_t a, int64_t b, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/// Adds `amount` to `count` and returns true, or returns false if the sum would
/// exceed `limit`. `count` never exceeds `limit`, not even temporarily.
inline bool AddWithin(int64_t limit, int64_t amount,
                      std::atomic<int64_t>& count) {
  int64_t current = count.load();
  do {
    if (amount > limit - current) return false;
  } while (!count.compare_exchange_weak(current, current + amount));
  return true;
}

/// A nonnegative count of bytes, elements or nanoseconds. Sums and products
/// saturate at 2^63 - 1, and differences saturate at 0, so the estimate for a
/// hostile request is huge rather than negative.
class Size {
 public:
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

  constexpr Size() = default;
  // Converts implicitly, and clamps `count` to the range 0 to kMax.
  constexpr Size(std::integral auto count)  // NOLINT(runtime/explicit)
      : count_(std::cmp_less(count, 0)         ? 0
               : std::cmp_greater(count, kMax) ? kMax
                                               : static_cast<int64_t>(count)) {}
  /// Rounds down. NaN becomes kMax.
  static constexpr Size Of(double count) {
    if (count < 0) return 0;
    constexpr double kEnd = 9223372036854775808.0;
    return count < kEnd ? static_cast<int64_t>(count) : kMax;
  }

  constexpr int64_t value() const { return count_; }

  friend constexpr Size operator+(Size a, Size b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a.count_, b.count_, &sum) ? kMax : sum;
  }
  friend constexpr Size operator*(Size a, Size b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.count_, b.count_, &product) ? kMax
                                                                : product;
  }
  friend constexpr Size operator-(Size a, Size b) {
    return a.count_ > b.count_ ? a.count_ - b.count_ : 0;
  }
  constexpr Size& operator+=(Size other) { return *this = *this + other; }
  friend constexpr auto operator<=>(Size a, Size b) = default;

 private:
  int64_t count_ = 0;
};

}  // namespace topk
