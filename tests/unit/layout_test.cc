// Detection of overlapping strides.
#include "core/plan/layout.h"

#include <gtest/gtest.h>

#include <set>

namespace topk {
namespace {

using Sizes = std::vector<int64_t>;

// Calls fn with all vectors of `rank` numbers between 0 and `last`.
template <class Fn>
void ForEach(size_t rank, int64_t last, const Fn& fn) {
  Sizes at(rank, 0);
  for (;;) {
    fn(at);
    size_t d = rank;
    while (d > 0 && ++at[d - 1] > last) at[--d] = 0;
    if (d == 0) return;
  }
}

bool OverlapsByLooking(const Sizes& shape, const Sizes& strides) {
  std::set<int64_t> places;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t place = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      place += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    if (!places.insert(place).second) return true;
  }
  return false;
}

TEST(Overlaps, EqualsEnumeration) {
  int overlapping = 0;
  int apart = 0;
  ForEach(3, 3, [&](const Sizes& shape) {
    ForEach(3, 10, [&](const Sizes& strides) {
      const bool expected = OverlapsByLooking(shape, strides);
      ++(expected ? overlapping : apart);
      ASSERT_EQ(Overlaps(shape, strides),
                expected ? Overlap::kYes : Overlap::kNo)
          << ::testing::PrintToString(shape) << " "
          << ::testing::PrintToString(strides);
    });
  });
  EXPECT_GT(apart, 0);
  EXPECT_GT(overlapping, 0);
}

TEST(Overlaps, DecidesHugeTensorsWithoutEnumeration) {
  const int64_t big = int64_t{1} << 31;
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{big, 2}, Sizes{2, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big - 1, 1}), Overlap::kYes);
  EXPECT_EQ(Overlaps(Sizes{big}, Sizes{0}), Overlap::kYes);
  // An empty tensor has nothing to overlap.
  EXPECT_EQ(Overlaps(Sizes{big, 0}, Sizes{0, 0}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{big, 2, 1}, Sizes{2, 1, 0}), Overlap::kNo);
}

// Coprime strides are not nested, but meet only at their product.
TEST(Overlaps, ComparesFewElements) {
  const int64_t a = 31;
  EXPECT_EQ(Overlaps(Sizes{a, a + 1}, Sizes{a + 1, a}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{a, 2, 16}, Sizes{a + 1, 950, a}), Overlap::kYes);
  const int64_t b = 101;
  EXPECT_EQ(Overlaps(Sizes{b, b + 1}, Sizes{b + 1, b}), Overlap::kUndecided);
}

}  // namespace
}  // namespace topk
