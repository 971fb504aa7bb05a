// Compares the results of all tensors with up to six elements out of eight
// values, for every k, direction and order, with a stable sort.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// The eight values. Floats: -inf, -1, -0, +0, 1, inf, NaN, NaN with a payload.
// Integers: extremes and numbers around zero.
struct Alphabet {
  DType type;
  int max_n;
  std::vector<uint64_t> letters;
};

// Returns all codes of a type.
std::vector<uint64_t> Codes(size_t count) {
  std::vector<uint64_t> codes(count);
  std::iota(codes.begin(), codes.end(), uint64_t{0});
  return codes;
}

const std::vector<Alphabet>& Alphabets() {
  static const auto* const alphabets = new std::vector<Alphabet>{
      {DType::kF32,
       6,
       {0xFF800000, 0xBF800000, 0x80000000, 0, 0x3F800000, 0x7F800000,
        0x7FC00000, 0xFF800001}},
      {DType::kF16,
       4,
       {0xFC00, 0xBC00, 0x8000, 0, 0x3C00, 0x7C00, 0x7E00, 0xFC01}},
      {DType::kBF16,
       4,
       {0xFF80, 0xBF80, 0x8000, 0, 0x3F80, 0x7F80, 0x7FC0, 0xFF81}},
      {DType::kF64,
       4,
       {0xFFF0000000000000, 0xBFF0000000000000, 0x8000000000000000, 0,
        0x3FF0000000000000, 0x7FF0000000000000, 0x7FF8000000000000,
        0xFFF0000000000001}},
      {DType::kI8, 5, {0x80, 0xFF, 0, 1, 0x7F}},
      {DType::kU8, 5, {0, 1, 0x7F, 0x80, 0xFF}},
      {DType::kI16, 5, {0x8000, 0xFFFF, 0, 1, 0x7FFF}},
      {DType::kU16, 5, {0, 1, 0x7FFF, 0x8000, 0xFFFF}},
      {DType::kI32, 5, {0x80000000, 0xFFFFFFFF, 0, 1, 0x7FFFFFFF}},
      {DType::kU32, 5, {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}},
      {DType::kI64,
       5,
       {0x8000000000000000, ~uint64_t{0}, 0, 1, 0x7FFFFFFFFFFFFFFF}},
      {DType::kU64,
       5,
       {0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, ~uint64_t{0}}},
      {DType::kU1, 8, Codes(2)},
      {DType::kU2, 5, Codes(4)},
      {DType::kU3, 4, Codes(8)},
      {DType::kU4, 3, Codes(16)},
      {DType::kU6, 4, {0, 1, 31, 32, 63}},
      {DType::kI4, 3, Codes(16)},
      {DType::kNF4, 3, Codes(16)},
      {DType::kF4E2M1, 3, Codes(16)},
      // Without infinities in the type, use the largest numbers.
      {DType::kF8E4M3, 4, {0xFE, 0xB8, 0x80, 0, 0x38, 0x7E, 0x7F, 0xFF}},
      {DType::kF8E5M2, 4, {0xFC, 0xBC, 0x80, 0, 0x3C, 0x7C, 0x7E, 0xFD}},
      {DType::kF8E8M0, 5, {0, 1, 127, 254, 255}},
  };
  return *alphabets;
}

// Returns a tensor whose rows are all sequences of n values.
std::string AllRows(const Alphabet& alphabet, int64_t rows, int64_t n) {
  const auto type = static_cast<int>(alphabet.type);
  const auto base = static_cast<int64_t>(alphabet.letters.size());
  std::string data(DataBytes(type, static_cast<size_t>(rows * n)), '\0');
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t rest = row, i = 0; i < n; ++i, rest /= base) {
      WriteBits(type, static_cast<size_t>(row * n + i),
                alphabet.letters[static_cast<size_t>(rest % base)], data);
    }
  }
  return data;
}

class Exhaustive : public ::testing::TestWithParam<Alphabet> {};

TEST_P(Exhaustive, EveryRowAndEveryK) {
  const Alphabet& alphabet = GetParam();
  const auto backends = AllBackends(2);
  int64_t rows = 1;
  for (int n = 1; n <= alphabet.max_n; ++n) {
    rows *= static_cast<int64_t>(alphabet.letters.size());
    const std::string tensor = AllRows(alphabet, rows, n);
    for (int k = 1; k <= n; ++k) {
      for (const Direction direction :
           {Direction::kLargest, Direction::kSmallest}) {
        for (const Order order : {Order::kValue, Order::kIndex}) {
          PlanRequest request = Ask(alphabet.type, {rows, n}, 1, k);
          request.direction = direction;
          request.order = order;
          const Plan plan = ValidPlan(request);
          const Answer expected = SlowAnswer(plan, tensor);
          for (const auto& backend : backends) {
            // The last backend accepts every plan.
            if (backend != backends.back() && !backend->Prepare(plan).ok()) {
              continue;
            }
            ASSERT_TRUE(RunPlan(*backend, plan, tensor) == expected)
                << Describe(*backend) << ", rows of " << n << ", k " << k;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Exhaustive, ::testing::ValuesIn(Alphabets()),
                         [](const auto& param) {
                           return std::string(InfoOf(param.param.type).name);
                         });

}  // namespace
}  // namespace topk::testing
