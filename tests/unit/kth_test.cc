// cpu::KthOf: what the kernel returns, or what does as well.
#include "core/backends/cpu/kth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace topk::cpu {
namespace {

template <class Key>
Key Unused(const Key*, int64_t, int64_t) {
  ADD_FAILURE() << "the kernel must not be called with this many keys";
  return 0;
}

template <class Key>
class KthOfTest : public ::testing::Test {};
using Keys = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(KthOfTest, Keys);

TYPED_TEST(KthOfTest, IsALowerBoundOfTheTopK) {
  std::mt19937_64 random(1);
  constexpr int64_t kCount = kKthMost + 1001;
  for (const uint64_t distinct : {uint64_t{1}, uint64_t{2}, uint64_t{3000},
                                  uint64_t{1} << 20, ~uint64_t{0}}) {
    for (const int high : {0, 1}) {
      std::vector<TypeParam> keys(kCount);
      for (TypeParam& key : keys) {
        key = static_cast<TypeParam>(random() % distinct);
        if (high == 1) key = static_cast<TypeParam>(~key);
      }
      std::vector<TypeParam> sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<TypeParam>());
      for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{999}, kCount / 2,
                              kCount - 1, kCount}) {
        const TypeParam found = KthOf<TypeParam>(Unused<TypeParam>, keys.data(),
                                                 kCount, k, nullptr);
        const TypeParam kth = sorted[static_cast<size_t>(k - 1)];
        const auto reach =
            std::count_if(keys.begin(), keys.end(),
                          [found](TypeParam key) { return key >= found; });
        EXPECT_TRUE(found == kth || reach == k) << distinct << " k " << k;
        EXPECT_TRUE(found != 0 || kth == 0) << distinct << " k " << k;
      }
    }
  }
}

}  // namespace
}  // namespace topk::cpu
