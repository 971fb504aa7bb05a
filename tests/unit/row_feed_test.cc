// RowFeed selects the right elements for any hint and bound, with little work
// even for adversarial orders.
#include "core/backends/cpu/row_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/base/cancellation.h"
#include "core/base/dtype.h"

namespace topk::cpu {
namespace {

using Encoder = SortKeyEncoder<uint32_t, false>;
using Feeder = RowFeed<uint32_t, false>;

const std::byte* Bytes(const std::vector<uint32_t>& row) {
  return reinterpret_cast<const std::byte*>(row.data());
}

// Returns the numbers from 1 to `count`.
std::vector<uint32_t> Ascending(int64_t count) {
  std::vector<uint32_t> row(static_cast<size_t>(count));
  std::iota(row.begin(), row.end(), 1u);
  return row;
}

std::vector<size_t> ChosenIndices(Selection<uint32_t>& selection) {
  selection.Finish();
  std::vector<size_t> chosen;
  for (size_t i = 0; i < static_cast<size_t>(selection.size()); ++i) {
    chosen.push_back(selection.index(i));
  }
  return chosen;
}

// Returns the indices of the k largest elements, by a stable sort.
std::vector<size_t> BestIndices(const std::vector<uint32_t>& row, size_t k) {
  std::vector<size_t> indices(row.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::ranges::stable_sort(indices,
                           [&](size_t a, size_t b) { return row[a] > row[b]; });
  indices.resize(k);
  std::ranges::sort(indices);
  return indices;
}

class RowFeedTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  static constexpr int64_t kCount = 20000;
  static constexpr int64_t kK = 60;
  const Kernels<uint32_t, false>& kernels_ =
      GetParam().kernels<uint32_t, false>();
  const Encoder encoder_{InfoOf(DType::kU32), true};
};

// Rows have different maxima: some hints are right, others too high or low.
TEST_P(RowFeedTest, IsRightForAnyHint) {
  std::mt19937 random(1);
  Feeder feed(kernels_, encoder_, kK);
  auto& hint = feed.hint();
  Selection<uint32_t> selection(kernels_.kth, kK, 128, kCount);
  int failed = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<uint32_t> row(kCount);
    const int shift = static_cast<int>(random() % 3) * 8;
    for (uint32_t& x : row) x = static_cast<uint32_t>(random()) >> shift;
    feed.FeedRow(Bytes(row), kCount, std::span(&selection, 1));
    failed += hint.wait > 30;
    ASSERT_EQ(ChosenIndices(selection), BestIndices(row, kK)) << round;
    selection.Reset();
  }
  EXPECT_GT(failed, 0);  // at least one hint was wrong
}

// The previous row's hint lets k - 1, k or k + 1 elements pass.
TEST_P(RowFeedTest, DropsAHintThatFewerThanKExceed) {
  std::vector<uint32_t> row = Ascending(kCount);
  std::ranges::shuffle(row, std::mt19937(1));
  for (const int64_t exceeding : {kK - 1, kK, kK + 1}) {
    Feeder feed(kernels_, encoder_, kK);
    auto& hint = feed.hint();
    hint.bound = encoder_(static_cast<uint32_t>(kCount - exceeding));
    Selection<uint32_t> selection(kernels_.kth, kK, 128, kCount);
    feed.FeedRow(Bytes(row), kCount, std::span(&selection, 1));
    EXPECT_EQ(ChosenIndices(selection), BestIndices(row, kK)) << exceeding;
  }
}

// Feeds similar rows after a row whose bound was far lower.
TEST_P(RowFeedTest, RaisesAHintThatTooManyExceed) {
  std::vector<uint32_t> row = Ascending(kCount);
  std::ranges::shuffle(row, std::mt19937(1));
  Feeder feed(kernels_, encoder_, kK);
  auto& hint = feed.hint();
  hint.bound = encoder_(kCount - 10 * kK);
  // The selection has room for all elements above the hint.
  Selection<uint32_t> selection(kernels_.kth, kK, 20 * kK, kCount);
  feed.FeedRow(Bytes(row), kCount, std::span(&selection, 1));
  ASSERT_TRUE(hint.bound.has_value());
  EXPECT_GT(*hint.bound, encoder_(kCount - 3 * kK));
  EXPECT_LE(*hint.bound, encoder_(kCount - kK));
}

TEST_P(RowFeedTest, ReadsRowsWithoutAHintAfterOneThatFailed) {
  const std::vector<uint32_t> row = Ascending(kCount);
  Feeder feed(kernels_, encoder_, kK);
  auto& hint = feed.hint();
  hint.bound = encoder_(kCount);
  int before = 0;
  for (int round = 0; round < 3; ++round) {
    Selection<uint32_t> selection(kernels_.kth, kK, 128, kCount);
    feed.FeedRow(Bytes(row), kCount, std::span(&selection, 1));
    EXPECT_TRUE(round == 0 || hint.wait == before - 1) << hint.wait;
    before = hint.wait;
    EXPECT_GT(before, 10);
  }
}

TEST_P(RowFeedTest, OffersNothingOnceCancelled) {
  const std::vector<uint32_t> row = Ascending(kCount);
  Cancellation cancellation;
  cancellation.Cancel();
  Selection<uint32_t> selection(kernels_.kth, kK, 128, kCount, &cancellation);
  Feeder feed(kernels_, encoder_, kK);
  EXPECT_EQ(feed.Scan({Bytes(row), kCount, 0}, 8, selection), kCount);
  EXPECT_EQ(selection.size(), 0);
}

// A row that begins with k elements of the best key is not scanned further.
TEST_P(RowFeedTest, StopsAtKElementsWithTheBestKey) {
  Kernels<uint32_t, false> kernels = kernels_;
  kernels.scan = [](const auto&, auto, int64_t count, auto, int64_t) {
    ADD_FAILURE() << "the rest of the row must not be scanned";
    return Scanned{count, 0};
  };
  const std::vector<uint32_t> row(kCount, 7);
  Selection<uint32_t> selection(kernels_.kth, kK, 128, kCount);
  Feeder feed(kernels, encoder_, kK, 7);
  EXPECT_FALSE(feed.IsComplete(selection));
  feed.Scan({Bytes(row), kCount, 0}, 8, selection);
  EXPECT_TRUE(feed.IsComplete(selection));
  EXPECT_EQ(ChosenIndices(selection), BestIndices(row, kK));
}

// In an ascending row, every element enters the selection unless RowFeed
// samples the rest of the row. Counts reselections rather than measuring time.
TEST_P(RowFeedTest, ReselectsRarelyFromAnAscendingRow) {
  constexpr int64_t kLong = 1000000;
  constexpr int64_t kMany = 100;
  const std::vector<uint32_t> row = Ascending(kLong);
  Selection<uint32_t> selection(kernels_.kth, kMany, 128, kLong);
  Feeder feed(kernels_, encoder_, kMany);
  constexpr int64_t kFirst = 1000;
  const Segment whole = {Bytes(row), kLong, 0};
  for (const Segment& part :
       {whole.Part<uint32_t>(0, kFirst), whole.Part<uint32_t>(kFirst, kLong)}) {
    feed.FeedPart(part, selection);
  }
  EXPECT_EQ(ChosenIndices(selection), BestIndices(row, kMany));
  EXPECT_LT(selection.reselections(), 100);  // 7812 without samples
}

// A row of segments with different maxima, fed in pieces of any length. Each
// piece has its own bounds, many of which fail.
TEST_P(RowFeedTest, IsRightForAnyChunking) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const int64_t count = 1 + static_cast<int64_t>(random() % 30000);
    std::vector<uint32_t> row(static_cast<size_t>(count));
    for (size_t i = 0; i < row.size();) {
      const size_t end = std::min(row.size(), i + 1 + random() % 9000);
      const uint32_t height =
          static_cast<uint32_t>(random()) >> (random() % 30);
      const uint32_t spread = 1 + static_cast<uint32_t>(random() % 3 * 5000);
      for (; i < end; ++i) {
        row[i] = height + static_cast<uint32_t>(random() % spread);
        if (random() % 700 == 0) {
          row[i] = 0xFFFF0000 + static_cast<uint32_t>(random() % 3);
        }
      }
    }
    const int64_t k =
        1 + static_cast<int64_t>(random()) % std::min<int64_t>(count, 300);
    Selection<uint32_t> selection(kernels_.kth, k, std::max<int64_t>(k, 128),
                                  count);
    Feeder feed(kernels_, encoder_, k);
    Feeder impatient(kernels_, encoder_, k, ~0u, 1);
    for (int64_t i = 0; i < count;) {
      const int64_t length =
          std::min(count - i, 1 + static_cast<int64_t>(random() % 12000));
      const Segment segment = {Bytes(row) + i * 4, length, i};
      Feeder& either = random() % 2 == 0 ? feed : impatient;
      either.FeedPart(segment, selection);
      i += length;
    }
    ASSERT_EQ(ChosenIndices(selection),
              BestIndices(row, static_cast<size_t>(k)))
        << round;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowFeedTest,
                         ::testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace topk::cpu
