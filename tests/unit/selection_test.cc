// cpu::Selection keeps the best k elements for any partition.
#include "core/backends/cpu/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

#include "tests/unit/best.h"

namespace topk::cpu {
namespace {

using Rank = std::tuple<uint64_t, uint64_t, uint64_t>;  // key, bits, index

// Returns different bits for each index.
template <class Key>
Key BitsAt(size_t index) {
  return static_cast<Key>(index * 37 + 11);
}

// Returns the expected elements, using a stable sort.
template <class Key>
std::vector<Rank> Best(const std::vector<Key>& keys, size_t k) {
  std::vector<Rank> best;
  for (const size_t i : testing::BestSlotsInOrder(keys, k)) {
    best.emplace_back(keys[i], BitsAt<Key>(i), i);
  }
  return best;
}

// A slow implementation of Kernels::kth.
template <class Key>
Key Kth(const Key* keys, int64_t count, int64_t k) {
  std::vector<Key> sorted(keys, keys + count);
  std::sort(sorted.begin(), sorted.end(), std::greater<Key>());
  return sorted[static_cast<size_t>(k - 1)];
}

// Returns the elements of a selection in ascending order of their indices.
template <class Key>
std::vector<Rank> Chosen(Selection<Key>& selection) {
  std::vector<Rank> chosen;
  selection.Finish();
  for (size_t i = 0; i < static_cast<size_t>(selection.size()); ++i) {
    chosen.emplace_back(selection.key(i), selection.bits(i),
                        selection.index(i));
  }
  return chosen;
}

template <class Key>
void Offer(const std::vector<Key>& keys, size_t begin, size_t end,
           Selection<Key>& selection) {
  for (size_t i = begin; i < end; ++i) {
    selection.Offer(keys[i], BitsAt<Key>(i), i);
  }
}

template <class Key>
std::vector<Key> Family(int family, size_t n, std::mt19937_64& random) {
  std::vector<Key> keys(n);
  for (size_t i = 0; i < n; ++i) {
    const std::array<uint64_t, 6> families = {
        random(), random() % 3, 0, i, n - i, ~uint64_t{0} - i % 2};
    keys[i] = static_cast<Key>(families[static_cast<size_t>(family)]);
  }
  return keys;
}
constexpr int kFamilies = 6;

template <class Key>
class SelectionTest : public ::testing::Test {};
using Keys = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(SelectionTest, Keys);

TYPED_TEST(SelectionTest, KeepsTheBestForAnySlack) {
  std::mt19937_64 random(1);
  for (int family = 0; family < kFamilies; ++family) {
    for (const size_t n : {1, 2, 3, 17, 100, 1000}) {
      const auto keys = Family<TypeParam>(family, n, random);
      for (const size_t k : {size_t{1}, size_t{2}, n / 2, n - 1, n}) {
        if (k < 1 || k > n) continue;
        for (const size_t slack : {k, k + 1, k + 256, n + k}) {
          Selection<TypeParam> selection(
              Kth<TypeParam>, static_cast<int64_t>(k),
              static_cast<int64_t>(slack), static_cast<int64_t>(n));
          Offer(keys, 0, n, selection);
          ASSERT_EQ(Chosen(selection), Best(keys, k))
              << "family " << family << " n " << n << " k " << k << " slack "
              << slack;
        }
      }
    }
  }
}

TYPED_TEST(SelectionTest, MergesInAnyGrouping) {
  std::mt19937_64 random(2);
  const auto pick = [&](size_t low, size_t high) {
    return low + static_cast<size_t>(random() % (high - low + 1));
  };
  for (int round = 0; round < 1000; ++round) {
    const size_t n = pick(1, 200);
    const size_t k = pick(1, n);
    const auto keys = Family<TypeParam>(round % kFamilies, n, random);
    // Split anywhere: pieces may be empty or shorter than k.
    std::vector<size_t> cuts = {0, n};
    for (size_t i = pick(0, 7); i > 0; --i) cuts.push_back(pick(0, n));
    std::sort(cuts.begin(), cuts.end());
    std::vector<Selection<TypeParam>> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      parts.emplace_back(Kth<TypeParam>, static_cast<int64_t>(k),
                         static_cast<int64_t>(k + 3), static_cast<int64_t>(n));
      Offer(keys, cuts[i], cuts[i + 1], parts.back());
    }
    while (parts.size() > 1) {  // merge two random neighbors
      const size_t from = pick(1, parts.size() - 1);
      parts[from - 1].Merge(parts[from]);
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(from));
    }
    ASSERT_EQ(Chosen(parts[0]), Best(keys, k))
        << "round " << round << " n " << n << " k " << k;
  }
}

// Earlier candidates fill the buffer and are reselected together with elements
// above the bound. Because of these candidates, the bound does not hold.
TEST(Selection, DropsABoundThatFewerThanKExceed) {
  Selection<uint32_t> selection(Kth<uint32_t>, 3, 4, 100);
  const std::vector<uint32_t> before = {1, 2, 3, 4, 5, 6};
  Offer(before, 0, before.size(), selection);
  const std::vector<uint32_t> all = {1, 2, 3, 4, 5, 6, 50, 200, 40};
  selection.TryBound(100);
  Offer(all, 6, 9, selection);
  EXPECT_GT(selection.reselections(), 0);
  EXPECT_EQ(selection.Exceeding(100), 1);
  selection.GiveBoundUp(6);
  EXPECT_FALSE(selection.bounded());
  Offer(all, 6, 9, selection);
  EXPECT_EQ(Chosen(selection), Best(all, 3));
}

// The tensor changed between two reads: elements that replaced others are not
// offered again.
TEST(Selection, HasKElementsAfterDroppingABound) {
  Selection<uint32_t> selection(Kth<uint32_t>, 3, 4, 100);
  const std::vector<uint32_t> all = {1, 2, 3, 4, 5, 6, 50, 200, 40};
  Offer(all, 0, 6, selection);
  selection.TryBound(100);
  Offer(all, 6, 9, selection);
  selection.GiveBoundUp(6);
  EXPECT_LT(selection.size(), 3);
  const std::vector<Rank> chosen = Chosen(selection);
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen.back(), Rank(0, 0, 0));
}

TEST(Selection, UsesMemoryForItsBufferOnly) {
  constexpr size_t kCount = 100000;
  std::vector<uint32_t> keys(kCount);  // ascending, so every element enters
  std::iota(keys.begin(), keys.end(), 0u);
  Selection<uint32_t> selection(Kth<uint32_t>, 10, 30, kCount);
  Offer(keys, 0, kCount, selection);
  EXPECT_LE(selection.size() + selection.room(), 10 + 30);
  EXPECT_EQ(Chosen(selection), Best(keys, 10));
}

}  // namespace
}  // namespace topk::cpu
