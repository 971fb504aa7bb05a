// A tensor that is modified while it is read, as one in shared memory may be.
// The result may be anything, but each index must lie on the axis, and nothing
// may crash, hang or access memory out of bounds (detected by
// AddressSanitizer).
//
// Not run under ThreadSanitizer, because the test races by design.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/backends.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

struct Changing {
  const char* name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
};

void PrintTo(const Changing& c, std::ostream* out) { *out << c.name; }

const Changing kCases[] = {
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

class ChangingTensor : public ::testing::TestWithParam<Changing> {};

TEST_P(ChangingTensor, ReturnsAValidResult) {
#ifdef TOPK_TSAN
  GTEST_SKIP() << "it races by design";
#endif
  const Changing& c = GetParam();
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

INSTANTIATE_TEST_SUITE_P(All, ChangingTensor, ::testing::ValuesIn(kCases),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace topk::testing
