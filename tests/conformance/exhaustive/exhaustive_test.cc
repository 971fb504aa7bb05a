// Compares every row of up to four elements over eight values, or of more
// elements over fewer values, with a stable sort. Uses every k, direction and
// order. Also sorts a row of all bit patterns of a type.
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

using Bits = std::vector<uint64_t>;

// Returns all bit patterns of a type with up to 16 bits.
Bits AllBits(const DTypeInfo& type) {
  Bits all(size_t{1} << type.bits);
  std::iota(all.begin(), all.end(), uint64_t{0});
  return all;
}

// Returns all codes of types of up to four bits, and special values of other
// types.
Bits LettersOf(const DTypeInfo& type) {
  if (type.bits <= 4) return AllBits(type);
  Bits letters = SpecialBits(static_cast<v1::DataType>(type.type));
  letters.resize(8);
  return letters;
}

std::string Tensor(const DTypeInfo& type, const Bits& elements) {
  const auto number = static_cast<int>(type.type);
  std::string data(DataBytes(number, elements.size()), '\0');
  for (size_t i = 0; i < elements.size(); ++i) {
    WriteBits(number, i, elements[i], data);
  }
  return data;
}

// Returns all sequences of n values.
Bits AllRows(const Bits& letters, int64_t rows, int64_t n) {
  const auto base = static_cast<int64_t>(letters.size());
  Bits elements;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t rest = row, i = 0; i < n; ++i, rest /= base) {
      elements.push_back(letters[static_cast<size_t>(rest % base)]);
    }
  }
  return elements;
}

class Exhaustive : public ::testing::TestWithParam<DTypeInfo> {
 protected:
  // Compares the results of all backends in each direction and order.
  void Compare(int64_t rows, int64_t n, int64_t k, const Bits& elements) const {
    const std::string tensor = Tensor(GetParam(), elements);
    for (const Direction direction :
         {Direction::kLargest, Direction::kSmallest}) {
      for (const Order order : {Order::kValue, Order::kIndex}) {
        PlanRequest request = Ask(GetParam().type, {rows, n}, 1, k);
        request.direction = direction;
        request.order = order;
        const Plan plan = ValidPlan(request);
        const Answer expected = SlowAnswer(plan, tensor);
        for (const auto& backend : backends_) {
          // The last backend accepts every plan.
          if (backend != backends_.back() &&
              backend->Prepare(plan, Arrival::kWhole) == nullptr) {
            continue;
          }
          ASSERT_TRUE(RunPlan(*backend, plan, tensor) == expected)
              << Describe(*backend) << ", rows of " << n << ", k " << k;
        }
      }
    }
  }

 private:
  const std::vector<std::unique_ptr<Backend>> backends_ = AllBackends(2);
};

TEST_P(Exhaustive, EveryRowAndEveryK) {
  const Bits letters = LettersOf(GetParam());
  const auto base = static_cast<int64_t>(letters.size());
  const int64_t most = GetParam().type == DType::kF32 ? 1 << 15 : 1 << 12;
  int64_t rows = base;
  for (int n = 1; rows <= most; ++n, rows *= base) {
    const Bits elements = AllRows(letters, rows, n);
    for (int k = 1; k <= n; ++k) Compare(rows, n, k, elements);
  }
}

// Types of more than 16 bits: the neighbors of every power of two, of infinity
// and of their complements.
TEST_P(Exhaustive, EveryPattern) {
  const DTypeInfo& type = GetParam();
  Bits patterns;
  if (type.bits <= 16) {
    patterns = AllBits(type);
  } else {
    const auto add_near = [&](uint64_t bits) {
      for (uint64_t p = bits - 2; p != bits + 3; ++p) {
        patterns.insert(patterns.end(), {p, ~p});
      }
    };
    for (int i = 0; i < type.bits; ++i) add_near(uint64_t{1} << i);
    add_near(type.infinity);
  }
  const auto n = static_cast<int64_t>(patterns.size());
  for (const int64_t k : {n / 2, n}) Compare(1, n, k, patterns);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Exhaustive, ::testing::ValuesIn(kDTypes),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace topk::testing
