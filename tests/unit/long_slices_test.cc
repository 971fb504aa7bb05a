// Slices that are long enough to be split return the bytes of a stable sort for
// any number of threads and pieces.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/dtype.h"
#include "tests/support/backends.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// Stretches of random numbers have different maxima, so that bounds that are
// estimated from a part of a row, or from the previous row, are often wrong.
constexpr uint64_t kUneven = ~uint64_t{0};

struct Slices {
  const char* name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  Direction direction = Direction::kLargest;
  Order order = Order::kValue;
  /// The number of distinct values, for ties. 0 = random bits, or kUneven.
  uint64_t distinct = 0;
  /// True if eight threads split the slices, and therefore report another
  /// kernel than one thread does.
  bool splits = false;
  /// In elements. Empty means contiguous.
  std::vector<int64_t> strides = {};
};

void PrintTo(const Slices& s, std::ostream* out) { *out << s.name; }

// With k = n - 1, losing a single element at a boundary is detected.
std::vector<Slices> AllSlices() {
  using enum DType;
  using enum Direction;
  using enum Order;
  return {
      {"one_row", kF32, {300000}, 0, 100, kLargest, kValue, 0, true},
      {"ties", kI32, {150000}, 0, 1000, kSmallest, kIndex, 3, true},
      {"two_rows", kI16, {2, 140000}, 1, 50, kLargest, kIndex, 0, true},
      {"all_but_one", kF16, {132000}, 0, 131999, kSmallest, kIndex, 0, false},
      {"rows", kBF16, {300, 300}, 1, 299, kSmallest, kValue, 0, false},
      {"columns", kU8, {300, 300}, 0, 299, kLargest, kValue, 0, false},
      {"few_columns", kF16, {25000, 6}, 0, 8000, kSmallest, kIndex, 0, true},
      {"tied_columns", kU64, {45000, 3}, 0, 99, kLargest, kValue, 2, true},
      {"k_is_n", kF32, {33000}, 0, 33000, kLargest, kValue, 0, true},
      {"uneven_row", kU32, {200000}, 0, 60, kLargest, kValue, kUneven, true},
      {"uneven", kU32, {20, 20000}, 1, 60, kLargest, kValue, kUneven, false},
      {"half", kU32, {132000}, 0, 66000, kLargest, kIndex, 5, true},
      {"parallel_sort", kF64, {36000}, 0, 32768, kLargest, kValue, 9, true},
      {"i64", kI64, {200000}, 0, 7, kLargest, kValue, 0, true},
      {"f32_columns", kF32, {3, 500, 200}, 1, 5, kLargest, kValue, 0, true},
      {"i8_columns", kI8, {100000, 3}, 0, 11, kLargest, kValue, 0, true},
      {"i4_rows", kI4, {700, 301}, 1, 9, kLargest, kValue, 0, false},
      {"u3", kU3, {300001}, 0, 100, kLargest, kValue, 0, true},
      {"u6_sorted", kU6, {100001}, 0, 100001, kLargest, kValue, 0, true},
      {"f4e2m1_rows", kF4E2M1, {7, 30001}, 1, 99, kLargest, kValue, 0, false},
      {"f8e4m3_rows", kF8E4M3, {7, 30000}, 1, 99, kLargest, kValue, 0, true},
      {"u1_columns", kU1, {50001, 3}, 0, 11, kLargest, kValue, 0, true},
      {"u6_columns", kU6, {3, 501, 203}, 1, 5, kLargest, kValue, 0, false},
      // Padded, as columns of a matrix, and with repeated elements.
      {"padded", kF32, {70000}, 0, 321, kLargest, kValue, 0, true, {3}},
      {"matrix", kF32, {2, 70000}, 1, 321, kLargest, kValue, 0, true, {1, 2}},
      {"again", kF32, {2, 70000}, 1, 321, kLargest, kValue, 0, true, {0, 1}},
  };
}

class LongSlices : public ::testing::TestWithParam<Slices> {
 protected:
  LongSlices() {
    const Slices& s = GetParam();
    PlanRequest request = Ask(s.dtype, s.shape, s.axis, s.k);
    request.direction = s.direction;
    request.order = s.order;
    request.strides = s.strides;
    plan_ = ValidPlan(request);
    const int64_t count = plan_.input.bytes * 8 / InfoOf(s.dtype).bits;
    tensor_ = SomeData(s.dtype, count, 17, s.distinct % kUneven);
    for (size_t i = 0; s.distinct == kUneven && i < tensor_.size() / 4; ++i) {
      const auto bits = ReadBits(v1::DATA_TYPE_U32, tensor_, i);
      WriteBits(v1::DATA_TYPE_U32, i, bits >> (i / 3000 * 5 % 24), tensor_);
    }
    expected_ = SlowAnswer(plan_, tensor_);
  }

  Plan plan_;
  std::string tensor_;
  Answer expected_;
};

TEST_P(LongSlices, HaveTheSameBytesForAnyThreadCount) {
  for (const int threads : {1, 2, 3, 5, 8}) {
    for (const auto& backend : AllBackends(threads)) {
      if (backend->Prepare(plan_, Arrival::kWhole) == nullptr) continue;
      ASSERT_TRUE(RunPlan(*backend, plan_, tensor_) == expected_)
          << Describe(*backend) << ", " << threads << " threads";
    }
  }
  const Answer one = RunPlan(*EagerBackend(1), plan_, tensor_);
  const Answer eight = RunPlan(*EagerBackend(8), plan_, tensor_);
  EXPECT_EQ(one.kernel != eight.kernel, GetParam().splits)
      << one.kernel << " " << eight.kernel;
}

TEST_P(LongSlices, HaveTheSameBytesForAnyChunking) {
  std::mt19937_64 random(5);
  for (const auto& backend : AllBackends(2)) {
    if (backend->Prepare(plan_, Arrival::kWhole) == nullptr) continue;
    for (const size_t size : {7, 4096, 65537, 1 << 30}) {
      ASSERT_TRUE(FoldPlan(*backend, plan_, tensor_, [size] { return size; }) ==
                  expected_)
          << Describe(*backend) << ", pieces of " << size;
    }
    ASSERT_TRUE(FoldPlan(*backend, plan_, tensor_,
                         [&random] {
                           return static_cast<size_t>(random() %
                                                      5000);  // may be empty
                         }) == expected_)
        << Describe(*backend) << ", pieces at random";
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongSlices, ::testing::ValuesIn(AllSlices()),
                         [](const auto& param) { return param.param.name; });

// A row of all bit patterns of a type.
TEST(EveryPattern, IsSorted) {
  const auto backends = AllBackends(2);
  for (const DTypeInfo& type : kDTypes) {
    if (type.bits > 16) continue;
    const int64_t n = int64_t{1} << type.bits;
    const auto number = static_cast<int>(type.type);
    std::string tensor(DataBytes(number, static_cast<size_t>(n)), '\0');
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      WriteBits(number, i, i, tensor);
    }
    for (const int64_t k : {n / 2, n}) {
      for (const Direction direction :
           {Direction::kLargest, Direction::kSmallest}) {
        PlanRequest request = Ask(type.type, {n}, 0, k);
        request.direction = direction;
        const Plan plan = ValidPlan(request);
        const Answer expected = SlowAnswer(plan, tensor);
        for (const auto& backend : backends) {
          if (backend->Prepare(plan, Arrival::kWhole) == nullptr) continue;
          ASSERT_TRUE(RunPlan(*backend, plan, tensor) == expected)
              << Describe(*backend) << " " << type.name << " k " << k;
        }
      }
    }
  }
}

const Slices kChanging[] = {
    {"short_rows", DType::kF32, {100, 300}, 1, 8},
    {"short_rows_of_u8", DType::kU8, {100, 300}, 1, 3},
    {"long_row", DType::kF32, {60000}, 0, 5},
    {"long_row_middle_k", DType::kF32, {60000}, 0, 3000},
    {"long_row_half", DType::kBF16, {60000}, 0, 29000},
    {"long_row_sorted", DType::kI32, {30000}, 0, 29999},
    {"long_row_of_u8", DType::kU8, {100000}, 0, 100},
    {"rows", DType::kU16, {20, 5000}, 1, 40},
    {"few_sorted", DType::kI16, {200, 60}, 1, 50},
    {"columns", DType::kF32, {600, 100}, 0, 5},
    {"narrow_columns", DType::kI64, {9000, 3}, 0, 4},
    {"columns_of_selections", DType::kF32, {600, 100}, 0, 70},
    {"columns_of_u8", DType::kU8, {3, 900, 40}, 1, 20},
    {"columns_all_but_one", DType::kF64, {300, 40}, 0, 299},
};

// Writes random bits, constants, zeros, NaNs or ascending values to a part of
// the tensor or to all of it, until the thread is destroyed.
std::jthread StartWriting(std::string& tensor) {
  const size_t size = tensor.size();
  std::mt19937_64 random(1);
  std::string bits;
  std::string ascending;
  for (size_t i = 0; i < size; ++i) {
    bits += static_cast<char>(random());
    ascending += static_cast<char>(i % 8 == 7 ? i * 64 / size : i);
  }
  const std::vector<std::string> patterns = {
      bits,      std::string(size, '\0'),   std::string(size, '\x7f'),
      ascending, std::string(size, '\x3f'), std::string(size, '\xff')};
  return std::jthread([=, &tensor](const std::stop_token& stop) mutable {
    while (!stop.stop_requested()) {
      const std::string& pattern = patterns[random() % patterns.size()];
      const size_t begin = random() % 2 == 0 ? 0 : random() % size;
      const size_t most = random() % 4 == 0 ? 64 : size;
      std::memcpy(tensor.data() + begin, pattern.data() + begin,
                  std::min(most, size - begin));
    }
  });
}

class ChangingTensor : public ::testing::TestWithParam<Slices> {};

// A tensor may be modified while it is read, e.g. in shared memory. The result
// may be anything, but each index must lie on the axis, and nothing may crash,
// hang or access memory out of bounds (detected by AddressSanitizer).
TEST_P(ChangingTensor, ReturnsAValidResult) {
#ifdef TOPK_TSAN
  GTEST_SKIP() << "it races by design";
#endif
  const Slices& c = GetParam();
  int64_t count = 1;
  for (const int64_t size : c.shape) count *= size;
  std::string tensor = SomeData(c.dtype, count, 3);
  const std::jthread writer = StartWriting(tensor);
  for (const int threads : {1, 2}) {
    for (const auto& backend : AllBackends(threads)) {
      for (int round = 0; round < 10; ++round) {
        PlanRequest request = Ask(c.dtype, c.shape, c.axis, c.k);
        request.direction =
            round % 2 == 0 ? Direction::kLargest : Direction::kSmallest;
        request.order = round % 4 < 2 ? Order::kValue : Order::kIndex;
        const Plan plan = ValidPlan(request);
        const Answer answer = RunPlan(*backend, plan, tensor);
        std::vector<int64_t> indices(answer.indices.size() / sizeof(int64_t));
        std::memcpy(indices.data(), answer.indices.data(),
                    answer.indices.size());
        for (const int64_t index : indices) {
          ASSERT_GE(index, 0) << Describe(*backend);
          ASSERT_LT(index, plan.n) << Describe(*backend);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChangingTensor, ::testing::ValuesIn(kChanging),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace topk::testing
