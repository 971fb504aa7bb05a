// Slices long enough to be cut: the bytes are those of a stable sort whatever
// the threads and the pieces; and what follows from the one order.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/support/backends.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

struct Slices {
  const char* name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  Direction direction;
  Order order;
  /// 0 = random bits; else few distinct values, so that ties are everywhere.
  uint64_t distinct;
  /// Whether several threads are to take another path than one.
  bool splits;
};

void PrintTo(const Slices& s, std::ostream* out) { *out << s.name; }

constexpr auto kLargest = Direction::kLargest;
constexpr auto kSmallest = Direction::kSmallest;
constexpr auto kValue = Order::kValue;
constexpr auto kIndex = Order::kIndex;

// With k = n - 1 every element counts: one lost at a cut is missed.
const Slices kSlices[] = {
    {"one_row", DType::kF32, {300000}, 0, 100, kLargest, kValue, 0, true},
    {"ties", DType::kI32, {150000}, 0, 1000, kSmallest, kIndex, 3, true},
    {"two_rows", DType::kI16, {2, 140000}, 1, 50, kLargest, kIndex, 0, true},
    {"all_but_one",
     DType::kF16,
     {132000},
     0,
     131999,
     kSmallest,
     kIndex,
     0,
     true},
    {"rows", DType::kBF16, {300, 300}, 1, 299, kSmallest, kValue, 0, false},
    {"columns", DType::kU8, {300, 300}, 0, 299, kLargest, kValue, 0, false},
    {"few_columns",
     DType::kF16,
     {25000, 6},
     0,
     8000,
     kSmallest,
     kIndex,
     0,
     true},
    {"tied_columns", DType::kU64, {45000, 3}, 0, 99, kLargest, kValue, 2, true},
    {"k_is_n", DType::kF32, {33000}, 0, 33000, kLargest, kValue, 0, true},
    {"half", DType::kU32, {132000}, 0, 66000, kLargest, kIndex, 5, true},
    {"parallel_sort",
     DType::kF64,
     {36000},
     0,
     32768,
     kLargest,
     kValue,
     9,
     true},
};

class LongSlices : public ::testing::TestWithParam<Slices> {
 protected:
  LongSlices() {
    const Slices& s = GetParam();
    PlanRequest request = Ask(s.dtype, s.shape, s.axis, s.k);
    request.direction = s.direction;
    request.order = s.order;
    plan_ = ValidPlan(request);
    int64_t count = 1;
    for (const int64_t size : s.shape) count *= size;
    tensor_ = SomeData(s.dtype, count, 17, s.distinct);
    expected_ = SlowAnswer(plan_, tensor_);
  }

  Plan plan_;
  std::string tensor_;
  Answer expected_;
};

TEST_P(LongSlices, HaveTheSameBytesForAnyThreadCount) {
  for (int threads = 1; threads <= 8; ++threads) {
    for (const auto& backend : AllBackends(threads)) {
      if (!backend->Prepare(plan_).ok()) continue;
      ASSERT_TRUE(RunPlan(*backend, plan_, tensor_) == expected_)
          << Describe(*backend) << ", " << threads << " threads";
    }
  }
  // Else this would not have tested the cuts.
  const Answer one = RunPlan(*EagerBackend(1), plan_, tensor_);
  const Answer eight = RunPlan(*EagerBackend(8), plan_, tensor_);
  EXPECT_EQ(one.kernel != eight.kernel, GetParam().splits)
      << one.kernel << " " << eight.kernel;
}

TEST_P(LongSlices, HaveTheSameBytesForAnyChunking) {
  std::mt19937_64 random(5);
  for (const auto& backend : AllBackends(2)) {
    if (!backend->Prepare(plan_).ok()) continue;
    for (const size_t size : {7, 4096, 65537, 1 << 30}) {
      ASSERT_TRUE(FoldPlan(*backend, plan_, tensor_, [size] { return size; }) ==
                  expected_)
          << Describe(*backend) << ", pieces of " << size;
    }
    ASSERT_TRUE(FoldPlan(*backend, plan_, tensor_,
                         [&random] {
                           return static_cast<size_t>(random() %
                                                      5000);  // empty too
                         }) == expected_)
        << Describe(*backend) << ", pieces at random";
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongSlices, ::testing::ValuesIn(kSlices),
                         [](const auto& param) { return param.param.name; });

// A long row through strides: padded, and as a column of a matrix.
TEST(LongSlices, MayBeStrided) {
  for (const std::vector<int64_t>& strides :
       {std::vector<int64_t>{1, 2}, {100003, 1}, {0, 1}, {3, 0}}) {
    PlanRequest request = Ask(DType::kF32, {2, 70000}, 1, 321);
    request.strides = strides;
    request.values.strides = {1, 2};
    request.indices.strides = {400, 1};
    const Plan plan = ValidPlan(request);
    const std::string tensor = SomeData(DType::kF32, plan.input.bytes / 4, 23);
    const Answer expected = SlowAnswer(plan, tensor);
    for (const int threads : {1, 2, 4}) {
      for (const auto& backend : AllBackends(threads)) {
        if (!backend->Prepare(plan).ok()) continue;
        EXPECT_TRUE(RunPlan(*backend, plan, tensor) == expected)
            << Describe(*backend) << ::testing::PrintToString(strides);
      }
    }
  }
}

// "machines: partial results with an index offset, merged by whoever fans out".
TEST(Shards, MergeIntoTheWholeResult) {
  constexpr int64_t kCount = 5000;
  constexpr int64_t kK = 40;
  const std::string row = SomeData(DType::kU16, kCount, 31, 200);
  const auto backends = AllBackends(1);
  const Backend& backend = *backends.back();
  const auto top = [&](const std::string& data, int64_t offset) {
    PlanRequest request =
        Ask(DType::kU16, {static_cast<int64_t>(data.size()) / 2}, 0, kK);
    request.index_offset = offset;
    return RunPlan(backend, ValidPlan(request), data);
  };
  std::string values;
  std::vector<int64_t> indices;
  for (int64_t first = 0; first < kCount; first += 1250) {
    const Answer part =
        top(row.substr(static_cast<size_t>(first) * 2, 2500), first);
    values += part.values;
    const size_t had = indices.size();
    indices.resize(had + kK);
    std::memcpy(&indices[had], part.indices.data(), part.indices.size());
  }
  // The parts lie in the order of the axis, so that ties fall as they would
  // have in the whole row.
  const Answer merged = top(values, 0);
  const Answer whole = top(row, 0);
  EXPECT_EQ(merged.values, whole.values);
  for (size_t j = 0; j < static_cast<size_t>(kK); ++j) {
    int64_t at = 0;
    int64_t expected = 0;
    std::memcpy(&at, merged.indices.data() + j * 8, 8);
    std::memcpy(&expected, whole.indices.data() + j * 8, 8);
    EXPECT_EQ(indices[static_cast<size_t>(at)], expected) << j;
  }
}

TEST(Prefix, TopKIsAPrefixOfTopKPlusOne) {
  const std::string row = SomeData(DType::kF16, 200, 41);
  const auto backends = AllBackends(1);
  for (const Direction direction : {kLargest, kSmallest}) {
    Answer next;
    for (int64_t k = 200; k >= 1; --k) {
      PlanRequest request = Ask(DType::kF16, {200}, 0, k);
      request.direction = direction;
      const Answer answer = RunPlan(*backends.back(), ValidPlan(request), row);
      if (k < 200) {
        ASSERT_EQ(answer.values,
                  next.values.substr(0, static_cast<size_t>(k) * 2));
        ASSERT_EQ(answer.indices,
                  next.indices.substr(0, static_cast<size_t>(k) * 8));
      }
      next = answer;
    }
  }
}

// A column of a matrix has the answer of the same elements as a row.
TEST(Columns, HaveTheResultsOfRows) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 150;
  const std::string matrix = SomeData(DType::kI8, kRows * kColumns, 43);
  const auto backends = AllBackends(2);
  const Backend& backend = *backends.back();
  const Answer all = RunPlan(
      backend, ValidPlan(Ask(DType::kI8, {kRows, kColumns}, 0, 5)), matrix);
  const Plan alone = ValidPlan(Ask(DType::kI8, {kRows}, 0, 5));
  for (size_t c = 0; c < kColumns; ++c) {
    std::string column;
    for (size_t r = 0; r < kRows; ++r) column += matrix[r * kColumns + c];
    const Answer one = RunPlan(backend, alone, column);
    for (size_t j = 0; j < 5; ++j) {
      ASSERT_EQ(one.values[j], all.values[j * kColumns + c]);
      ASSERT_EQ(one.indices.substr(j * 8, 8),
                all.indices.substr((j * kColumns + c) * 8, 8));
    }
  }
}

}  // namespace
}  // namespace topk::testing
