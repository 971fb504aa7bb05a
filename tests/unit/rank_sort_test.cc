// SortByRank: a stable sort, in any number of pieces.
#include "core/backends/cpu/rank_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace topk::cpu {
namespace {

template <class Key>
class RankSort : public ::testing::Test {};
using Keys = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(RankSort, Keys);

TYPED_TEST(RankSort, IsAStableSort) {
  using Item = Ranked<TypeParam>;
  std::mt19937_64 random(1);
  for (const size_t count : {0, 1, 2, 24, 25, 100, 1000, 20000, 140000}) {
    for (const uint64_t distinct :
         {uint64_t{1}, uint64_t{2}, uint64_t{300}, ~uint64_t{0}}) {
      for (const int64_t pieces : {1, 2, 5}) {
        std::vector<Item> items(count);
        for (size_t i = 0; i < count; ++i) {
          items[i] = {static_cast<TypeParam>(random() % distinct),
                      static_cast<uint32_t>(i)};
        }
        // Far from zero too: the range of the keys is what counts.
        if (distinct == 300) {
          for (Item& item : items) {
            item.key = static_cast<TypeParam>(~TypeParam{0} - item.key);
          }
        }
        std::vector<Item> expected = items;
        std::stable_sort(
            expected.begin(), expected.end(),
            [](const Item& a, const Item& b) { return a.key < b.key; });
        std::vector<Item> other(count);
        if (count == 0 && pieces > 1) continue;
        const auto sorted = SortByRank<TypeParam>(items, other, pieces);
        ASSERT_EQ(sorted.size(), count);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(sorted[i].key, expected[i].key) << i;
          ASSERT_EQ(sorted[i].slot, expected[i].slot)
              << count << " items, " << distinct << " keys, " << pieces;
        }
      }
    }
  }
}

}  // namespace
}  // namespace topk::cpu
