// Shapes and strides to bytes, and overlaps.
#include "core/plan/layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <string>

namespace topk {
namespace {

using Sizes = std::vector<int64_t>;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Calls fn with every vector of `rank` numbers 0 .. last.
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

void ExpectSameAsLooking(size_t rank, int64_t last_size, int64_t last_stride) {
  int overlapping = 0;
  int apart = 0;
  ForEach(rank, last_size, [&](const Sizes& shape) {
    ForEach(rank, last_stride, [&](const Sizes& strides) {
      const bool expected = OverlapsByLooking(shape, strides);
      ++(expected ? overlapping : apart);
      ASSERT_EQ(Overlaps(shape, strides),
                expected ? Overlap::kYes : Overlap::kNo)
          << ::testing::PrintToString(shape) << " "
          << ::testing::PrintToString(strides);
    });
  });
  EXPECT_GT(apart, 0);
  if (last_size > 1) {
    EXPECT_GT(overlapping, 0);
  }
}

TEST(Overlaps, EqualsEnumerationInOneDimension) {
  ExpectSameAsLooking(1, 9, 9);
}
TEST(Overlaps, EqualsEnumerationInTwoDimensions) {
  ExpectSameAsLooking(2, 6, 16);
}
TEST(Overlaps, EqualsEnumerationInThreeDimensions) {
  ExpectSameAsLooking(3, 3, 10);
}
TEST(Overlaps, EqualsEnumerationInFourDimensions) {
  ExpectSameAsLooking(4, 2, 5);
}

TEST(Overlaps, DecidesHugeTensorsWithoutEnumeration) {
  const int64_t big = int64_t{1} << 31;
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{big, 2}, Sizes{2, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big - 1, 1}), Overlap::kYes);
  EXPECT_EQ(Overlaps(Sizes{big}, Sizes{0}), Overlap::kYes);
  // There is nothing to overlap.
  EXPECT_EQ(Overlaps(Sizes{big, 0}, Sizes{0, 0}), Overlap::kNo);
  // Neither nested nor overlapping: coprime strides that meet at a * b only.
  const int64_t a = 30011;
  EXPECT_EQ(Overlaps(Sizes{a, a + 1}, Sizes{a + 1, a}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{a + 1, a + 2}, Sizes{a + 1, a}), Overlap::kYes);
  EXPECT_EQ(Overlaps(Sizes{a, a + 1, 1}, Sizes{a + 1, a, 0}), Overlap::kNo);
}

// Random layouts that nearly overlap: decided as looking does where it is
// decided, and always within the steps.
TEST(Overlaps, EqualsEnumerationOfRandomLayouts) {
  std::mt19937_64 random(1);
  int decided = 0;
  constexpr int kRounds = 3000;
  for (int i = 0; i < kRounds; ++i) {
    const size_t rank = 2 + random() % 4;
    Sizes shape(rank);
    Sizes strides(rank);
    for (size_t d = 0; d < rank; ++d) {
      shape[d] = static_cast<int64_t>(1 + random() % 7);
      strides[d] = static_cast<int64_t>(1 + random() % (i % 300 + 2));
    }
    const Overlap overlap = Overlaps(shape, strides);
    if (overlap == Overlap::kUndecided) continue;
    ++decided;
    ASSERT_EQ(overlap == Overlap::kYes, OverlapsByLooking(shape, strides))
        << ::testing::PrintToString(shape) << " "
        << ::testing::PrintToString(strides);
  }
  EXPECT_GT(decided, kRounds * 99 / 100);
}

// Eight dimensions of strides that nearly meet: nobody can say within the
// steps, and that is said.
TEST(Overlaps, IsBounded) {
  std::mt19937_64 random(1);
  int undecided = 0;
  for (int i = 0; i < 50; ++i) {
    Sizes shape(8);
    Sizes strides(8);
    for (size_t d = 0; d < 8; ++d) {
      shape[d] = 16;
      strides[d] = static_cast<int64_t>(4'000'000'000 + random() % 100'000'000);
    }
    undecided += Overlaps(shape, strides) == Overlap::kUndecided;
  }
  EXPECT_GT(undecided, 0);
}

TEST(CountElements, MultipliesTheSizes) {
  const auto count = [](const Sizes& shape) {
    return *CountElements(shape, "f");
  };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({7}), 7);
  EXPECT_EQ(count({2, 3, 4}), 24);
  EXPECT_EQ(count({2, 0, 4}), 0);
  EXPECT_EQ(count({kMax}), kMax);
  EXPECT_EQ(count({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
}

TEST(CountElements, NamesTheNegativeDimension) {
  const auto count = CountElements(Sizes{2, -3}, "tensor.shape");
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.status().code, Code::kInvalidArgument);
  EXPECT_EQ(count.status().reason, "NEGATIVE_DIMENSION");
  EXPECT_EQ(count.status().field, "tensor.shape[1]");
  EXPECT_NE(count.status().message.find("-3"), std::string::npos);
}

TEST(CountElements, NamesTheDimensionAtWhichItOverflows) {
  const auto count = CountElements(Sizes{1, kMax, 2}, "tensor.shape");
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.status().reason, "SIZE_OVERFLOW");
  EXPECT_EQ(count.status().field, "tensor.shape[2]");
}

// A zero makes the tensor empty, not the overflow lawful: else the product of a
// part of the sizes, outer or inner, would overflow later.
TEST(CountElements, ReportsOverflowNextToAZero) {
  EXPECT_FALSE(CountElements(Sizes{0, kMax, 2}, "f").ok());
  EXPECT_FALSE(CountElements(Sizes{kMax, 2, 0}, "f").ok());
  EXPECT_FALSE(CountElements(Sizes{kMax, 0, -1}, "f").ok());
}

TEST(PackedLayout, IsRowMajor) {
  const Layout layout = *PackedLayout(Sizes{2, 3, 4}, InfoOf(DType::kF16), "f");
  EXPECT_EQ(layout.strides, (Sizes{12, 4, 1}));
  EXPECT_EQ(layout.bytes, 48);
  EXPECT_TRUE(layout.packed);
}

TEST(PackedLayout, IsEmptyWithADimensionOfZero) {
  EXPECT_EQ(PackedLayout(Sizes{2, 0, 4}, InfoOf(DType::kF64), "f")->bytes, 0);
}

TEST(PackedLayout, RejectsBytesBeyond63Bits) {
  const auto layout =
      PackedLayout(Sizes{kMax / 2}, InfoOf(DType::kF32), "tensor.shape");
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().reason, "SIZE_OVERFLOW");
  EXPECT_EQ(layout.status().field, "tensor.shape");
}

TEST(StridedLayout, EndsAfterTheLastElement) {
  const Layout layout = *StridedLayout(Sizes{2, 3}, Sizes{10, 2}, 2, "f");
  EXPECT_EQ(layout.strides, (Sizes{10, 2}));
  EXPECT_EQ(layout.bytes, (10 + 2 * 2 + 1) * 2);
  EXPECT_FALSE(layout.packed);
  EXPECT_EQ(StridedLayout(Sizes{5, 7}, Sizes{0, 0}, 4, "f")->bytes, 4);
}

TEST(StridedLayout, NamesTheStrideAtFault) {
  const auto field = [](const Sizes& shape, const Sizes& strides) {
    const auto layout = StridedLayout(shape, strides, 4, "s");
    return layout.ok() ? "" : layout.status().reason + layout.status().field;
  };
  EXPECT_EQ(field({2, 2}, {1}), "STRIDES_RANKs");
  EXPECT_EQ(field({2, 2}, {1, 2, 3}), "STRIDES_RANKs");
  EXPECT_EQ(field({2, 2}, {1, -1}), "STRIDE_RANGEs[1]");
  EXPECT_EQ(field({2, 2}, {4294967296, 1}), "STRIDE_RANGEs[0]");
  EXPECT_EQ(field({2, 2}, {4294967295, 1}), "");
  EXPECT_EQ(field({4294967295, 2}, {4294967295, 1}), "SIZE_OVERFLOWs[0]");
  EXPECT_EQ(field({1 << 30, 2}, {4294967295, 1}), "SIZE_OVERFLOWs");
}

}  // namespace
}  // namespace topk
