#include "core/plan/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr int64_t kMaxStride = std::numeric_limits<uint32_t>::max();

Status Overflow(std::string_view field) {
  return InvalidArgument("SIZE_OVERFLOW", field,
                         "the tensor's size exceeds 2^63 - 1 bytes");
}

// A dimension of a strided tensor. The indices of two elements differ by at
// most `most`. Each step of the index changes the position by `stride`.
struct Term {
  int64_t stride;  // > 0
  int64_t most;    // > 0
};

// Searches for two elements with the same position, i.e. for steps along the
// dimensions, not all 0, such that the sum of stride * step is 0. This is a
// bounded linear Diophantine equation, as in NumPy's solve_may_share_memory.
// The depth-first search starts with the greatest stride. A branch is pruned if
// the smaller strides cannot make the sum 0, given their greatest possible sum
// and their greatest common divisor.
class Collisions {
 public:
  // REQUIRES: there are at least two terms, in ascending order of stride, and
  // the sum of stride * most over all terms is less than 2^63.
  explicit Collisions(std::span<const Term> terms) : terms_(terms) {
    int64_t reach = 0;
    int64_t divisor = 0;
    for (const Term& term : terms) {
      reach += term.stride * term.most;
      divisor = std::gcd(divisor, term.stride);
      below_.push_back({reach, divisor});
    }
    const int64_t two = below_[1].divisor;
    inverse_ = Inverse(terms[0].stride / two, terms[1].stride / two);
  }

  Overlap Search() {
    const bool found = Descend(terms_.size(), 0, true);
    return found         ? Overlap::kYes
           : steps_ <= 0 ? Overlap::kUndecided
                         : Overlap::kNo;
  }

 private:
  // The greatest possible sum of stride * step over the terms 0 to i, and the
  // greatest common divisor of their strides. Stored in below_[i].
  struct Below {
    int64_t reach;
    int64_t divisor;
  };

  // Returns whether the first `count` terms can be given steps such that
  // `place` plus the sum of stride * step is 0. If `trivial`, all earlier steps
  // are 0, and a later step must be nonzero. Negative values of the next step
  // are then skipped, because each solution can be negated.
  bool Descend(size_t count, int64_t place, bool trivial) {
    if (--steps_ <= 0) return false;
    const auto [reach, divisor] = below_[count - 1];
    if (place % divisor != 0 || place > reach || place < -reach) return false;
    if (count == 2) {
      return trivial ? TwoMeet(divisor) : TwoReach(-place / divisor, divisor);
    }
    const Term& term = terms_[count - 1];
    // Skip steps that leave a sum too far from 0 for the smaller strides.
    const int64_t rest = below_[count - 2].reach;
    const int64_t first =
        trivial ? 0
                : std::max(-term.most, CeilDivide(-place - rest, term.stride));
    const int64_t last =
        std::min(term.most, FloorDivide(rest - place, term.stride));
    for (int64_t step = first; step <= last && steps_ > 0; ++step) {
      if (Descend(count - 1, place + step * term.stride,
                  trivial && step == 0)) {
        return true;
      }
    }
    return false;
  }

  // Returns whether a * x + b * y = 0 for some allowed, nonzero steps x and y.
  // a and b are the two smallest strides. The smallest steps are |x| = b / gcd
  // and |y| = a / gcd.
  bool TwoMeet(int64_t divisor) const {
    return terms_[1].stride / divisor <= terms_[0].most &&
           terms_[0].stride / divisor <= terms_[1].most;
  }

  // Returns whether a * x + b * y = wanted for some allowed steps x and y. a
  // and b are the two smallest strides divided by `divisor`, their gcd.
  // `wanted` is also divided by `divisor`. y is an integer only for every b-th
  // x. Checks whether such an x is in [low, high], where x and y are allowed.
  bool TwoReach(int64_t wanted, int64_t divisor) const {
    const int64_t a = terms_[0].stride / divisor;
    const int64_t b = terms_[1].stride / divisor;
    const int64_t spread = b * terms_[1].most;
    const int64_t low =
        std::max(-terms_[0].most, CeilDivide(wanted - spread, a));
    const int64_t high =
        std::min(terms_[0].most, FloorDivide(wanted + spread, a));
    // Strides have at most 32 bits, so the product has at most 64.
    const uint64_t product = static_cast<uint64_t>(Modulo(wanted, b)) *
                             static_cast<uint64_t>(inverse_);
    const auto x = static_cast<int64_t>(product % static_cast<uint64_t>(b));
    return low + Modulo(x - low, b) <= high;
  }

  // Returns the inverse of a modulo b. REQUIRES: a and b are coprime.
  static int64_t Inverse(int64_t a, int64_t b) {
    int64_t x = 1;
    int64_t next = 0;
    for (int64_t m = b; m != 0;) {
      const int64_t quotient = a / m;
      a = std::exchange(m, a % m);
      x = std::exchange(next, x - quotient * next);
    }
    return Modulo(x, b);
  }
  static int64_t Modulo(int64_t a, int64_t b) {
    return a % b + (a % b < 0 ? b : 0);
  }
  static int64_t FloorDivide(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
  }
  static int64_t CeilDivide(int64_t a, int64_t b) {
    return a / b + (a % b > 0 ? 1 : 0);
  }

  const std::span<const Term> terms_;
  std::vector<Below> below_;
  int64_t inverse_;  // of the smallest stride modulo the next, divided by gcd
  int steps_ = kOverlapSteps;
};

std::string PathOf(std::string_view field, size_t i) {
  return StrCat(field, "[", i, "]");
}

}  // namespace

Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field) {
  int64_t nonzero = 1;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      return InvalidArgument("NEGATIVE_DIMENSION", PathOf(field, i),
                             StrCat("dimension ", i, " has size ", shape[i],
                                    "; it must not be negative"));
    }
    empty |= shape[i] == 0;
    if (shape[i] != 0 && !CheckedMultiply(nonzero, shape[i], &nonzero)) {
      return Overflow(PathOf(field, i));
    }
  }
  return empty ? 0 : nonzero;
}

Result<Layout> MakeLayout(std::span<const int64_t> shape,
                          std::span<const int64_t> strides,
                          const DTypeInfo& type, std::string_view shape_field,
                          std::string_view strides_field) {
  if (!strides.empty() && strides.size() != shape.size()) {
    return InvalidArgument(
        "STRIDES_RANK", strides_field,
        StrCat("there are ", strides.size(), " strides for ", shape.size(),
               " dimensions; pass one for each"));
  }
  Layout layout;
  layout.shares_bytes = type.packed();
  layout.given_strides.assign(strides.begin(), strides.end());
  layout.strides.resize(shape.size());
  // Treat sizes of 0 as 1: an empty tensor's strides do not matter. The strides
  // cannot overflow, because CountElements() limits the product.
  int64_t stride = 1;
  int64_t count = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    layout.packed &= strides.empty() || shape[i] == 1 || strides[i] == stride;
    stride *= std::max<int64_t>(shape[i], 1);
    count *= shape[i] == 0 ? 0 : 1;
  }
  if (strides.empty()) {
    if (CheckedBytes(type, stride * count, &layout.bytes)) return layout;
    return Overflow(shape_field);
  }
  if (!layout.packed) layout.strides = layout.given_strides;
  int64_t last = 0;  // the position of the last element
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0 || strides[i] > kMaxStride) {
      return InvalidArgument(
          "STRIDE_RANGE", PathOf(strides_field, i),
          StrCat("stride ", strides[i], " is outside 0 .. 4294967295 (UINT)"));
    }
    int64_t span = 0;
    if (!CheckedMultiply(std::max<int64_t>(shape[i] - 1, 0), strides[i],
                         &span) ||
        !CheckedAdd(last, span, &last)) {
      return Overflow(PathOf(strides_field, i));
    }
  }
  if (!CheckedAdd(last, 1, &last) ||
      !CheckedMultiply(last, type.bytes, &layout.bytes)) {
    return Overflow(strides_field);
  }
  return layout;
}

Overlap Overlaps(std::span<const int64_t> shape,
                 std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return Overlap::kNo;
  std::vector<Term> terms;
  Size count = 1;
  Size reach = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (strides[i] == 0) return Overlap::kYes;
    terms.push_back({strides[i], shape[i] - 1});
    count = count * shape[i];
    reach += Size(shape[i] - 1) * strides[i];
  }
  // If there are more elements than positions, some elements must overlap.
  if (count > reach + 1) return Overlap::kYes;
  std::ranges::sort(terms, {}, &Term::stride);
  if (terms.size() < 2) return Overlap::kNo;
  return Collisions(terms).Search();
}

}  // namespace topk
