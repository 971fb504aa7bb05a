// RowFeed does little work even for adversarial orders.
// unit/long_slices_test.cc checks the results.
#include "core/backends/cpu/row_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
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

// A selection and its memory.
class OwnedSelection {
 public:
  OwnedSelection(const Kernels<uint32_t, false>& kernels, int64_t k)
      : keys_(static_cast<size_t>(k + 128)),
        elements_(keys_.size()),
        selection_(kernels.kth, k, keys_, elements_) {}

  Selection<uint32_t>& operator*() { return selection_; }

 private:
  std::vector<uint32_t> keys_;
  std::vector<Selection<uint32_t>::Element> elements_;
  Selection<uint32_t> selection_;
};

// Kernels that count the elements they scan. Only one object may exist at a
// time.
struct CountingKernels {
  explicit CountingKernels(const Kernels<uint32_t, false>& from)
      : kernels(from) {
    real = from;
    scanned = 0;
    kernels.scan = [](const Encoder& encoder, uint32_t bound,
                      const std::byte* elements, int64_t count,
                      uint32_t* positions, int64_t room) {
      const Scanned result =
          real.scan(encoder, bound, elements, count, positions, room);
      scanned += result.elements;
      return result;
    };
  }

  static inline Kernels<uint32_t, false> real;
  static inline int64_t scanned;
  Kernels<uint32_t, false> kernels;
};

class RowFeedTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  static constexpr int64_t kCount = 20000;
  static constexpr int64_t kK = 60;
  const Kernels<uint32_t, false>& kernels_ =
      GetParam().kernels<uint32_t, false>();
  const Encoder encoder_{InfoOf(DType::kU32), true};
};

// The elements of every second row exceed those of the next row, for which the
// bound of the previous row therefore fails.
TEST_P(RowFeedTest, ReadsHalfOfTheRowsTwiceIfEachPreviousBoundFails) {
  CountingKernels counting(kernels_);
  Feeder feed(counting.kernels, encoder_, kK);
  std::mt19937 random(1);
  constexpr int64_t kRounds = 20;
  for (int64_t i = 0; i < kRounds; ++i) {
    std::vector<uint32_t> row = Ascending(kCount);
    std::ranges::shuffle(row, random);
    if (i % 2 == 0) {
      for (uint32_t& element : row) element += kCount;
    }
    OwnedSelection owned(kernels_, kK);
    feed.FeedRow({Bytes(row), kCount, 0}, std::span(&*owned, 1));
  }
  EXPECT_GT(counting.scanned, kRounds * kCount);
  EXPECT_LE(counting.scanned, kRounds * kCount * 3 / 2);
}

// In an ascending row, every element enters the selection unless RowFeed
// samples the rest of the row. Counts reselections rather than measuring time.
TEST_P(RowFeedTest, ReselectsRarelyForAnyOrder) {
  constexpr int64_t kLong = 1000000;
  constexpr int64_t kMany = 100;
  std::vector<uint32_t> row = Ascending(kLong);
  const auto expect_few = [&](int64_t reselections) {
    OwnedSelection owned(kernels_, kMany);
    Selection<uint32_t>& selection = *owned;
    Feeder feed(kernels_, encoder_, kMany);
    constexpr int64_t kFirst = 1000;
    const Segment whole = {Bytes(row), kLong, 0};
    for (const Segment& part : {whole.Part<uint32_t>(0, kFirst),
                                whole.Part<uint32_t>(kFirst, kLong)}) {
      feed.Feed(part, selection);
    }
    EXPECT_LT(selection.reselections(), reselections);
  };
  expect_few(100);  // 7812 without samples
  std::ranges::reverse(row);
  expect_few(10);
  std::ranges::shuffle(row, std::mt19937(1));
  expect_few(30);
}

INSTANTIATE_TEST_SUITE_P(All, RowFeedTest,
                         ::testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace topk::cpu
