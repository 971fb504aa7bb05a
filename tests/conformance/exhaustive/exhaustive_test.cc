// Compares every row of up to four elements over eight values, or of more
// elements over fewer values, with a stable sort. Uses every k, direction and
// order.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "tests/support/backends.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// Returns all codes of types of up to four bits. For other floats, returns
// -inf, -1, -0, +0, 1, inf, NaN, and NaN with a payload. For other types,
// returns the extremes and the numbers around zero.
std::vector<uint64_t> LettersOf(const DTypeInfo& type) {
  std::vector<uint64_t> letters;
  if (type.bits <= 4) {
    letters.resize(size_t{1} << type.bits);
    std::iota(letters.begin(), letters.end(), uint64_t{0});
  } else if (type.is_float) {
    letters = SpecialBits(static_cast<v1::DataType>(type.type));
    letters.resize(8);
  } else {
    const uint64_t middle = uint64_t{1} << (type.bits - 1);
    letters = {0, 1, middle - 1, middle, 2 * middle - 1};
  }
  return letters;
}

// Returns a tensor whose rows are all sequences of n values.
std::string AllRows(int type, const std::vector<uint64_t>& letters,
                    int64_t rows, int64_t n) {
  const auto base = static_cast<int64_t>(letters.size());
  std::string data(DataBytes(type, static_cast<size_t>(rows * n)), '\0');
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t rest = row, i = 0; i < n; ++i, rest /= base) {
      WriteBits(type, static_cast<size_t>(row * n + i),
                letters[static_cast<size_t>(rest % base)], data);
    }
  }
  return data;
}

class Exhaustive : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(Exhaustive, EveryRowAndEveryK) {
  const DType type = GetParam().type;
  const auto backends = AllBackends(2);
  const std::vector<uint64_t> letters = LettersOf(GetParam());
  const auto base = static_cast<int64_t>(letters.size());
  const int64_t most = type == DType::kF32 ? 1 << 15 : 1 << 12;
  int64_t rows = base;
  for (int n = 1; rows <= most; ++n, rows *= base) {
    const std::string tensor =
        AllRows(static_cast<int>(type), letters, rows, n);
    for (int k = 1; k <= n; ++k) {
      for (const Direction direction :
           {Direction::kLargest, Direction::kSmallest}) {
        for (const Order order : {Order::kValue, Order::kIndex}) {
          PlanRequest request = Ask(type, {rows, n}, 1, k);
          request.direction = direction;
          request.order = order;
          const Plan plan = ValidPlan(request);
          const Answer expected = SlowAnswer(plan, tensor);
          for (const auto& backend : backends) {
            // The last backend accepts every plan.
            if (backend != backends.back() &&
                backend->Prepare(plan, Arrival::kWhole) == nullptr) {
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

INSTANTIATE_TEST_SUITE_P(AllTypes, Exhaustive, ::testing::ValuesIn(kDTypes),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace topk::testing
