// Compares every tensor of up to six elements over eight values, with every k,
// direction and order, with a stable sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"

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

// A tensor whose rows are all sequences of n values.
struct Words {
  int64_t count = 1;
  std::vector<std::vector<int>> letters;
  std::string data;
};

Words AllWords(const Alphabet& alphabet, int n) {
  Words words;
  const auto base = static_cast<int64_t>(alphabet.letters.size());
  for (int i = 0; i < n; ++i) words.count *= base;
  const auto type = static_cast<int>(alphabet.type);
  words.data.resize(DataBytes(type, static_cast<size_t>(words.count * n)));
  for (int64_t w = 0; w < words.count; ++w) {
    std::vector<int> word;
    for (int64_t rest = w, i = 0; i < n; ++i, rest /= base) {
      word.push_back(static_cast<int>(rest % base));
      WriteBits(type, static_cast<size_t>(w * n + i),
                alphabet.letters[static_cast<size_t>(word.back())], words.data);
    }
    words.letters.push_back(std::move(word));
  }
  return words;
}

// Returns the rank of each value. Equal values share a rank.
std::vector<int> Ranks(const Alphabet& alphabet) {
  std::vector<Number> numbers;
  for (const uint64_t bits : alphabet.letters) {
    numbers.push_back(NumberOf(static_cast<v1::DataType>(alphabet.type), bits));
  }
  std::vector<int> ranks;
  for (const Number& x : numbers) {
    ranks.push_back(static_cast<int>(
        std::count_if(numbers.begin(), numbers.end(), [&](const Number& y) {
          return x.nan ? !y.nan : !y.nan && y.value < x.value;
        })));
  }
  return ranks;
}

class Exhaustive : public ::testing::TestWithParam<Alphabet> {};

TEST_P(Exhaustive, EveryRowAndEveryK) {
  const Alphabet& alphabet = GetParam();
  const std::vector<int> ranks = Ranks(alphabet);
  const auto type = static_cast<int>(alphabet.type);
  const auto backends = AllBackends(2);
  int64_t checked = 0;
  for (int n = 1; n <= alphabet.max_n; ++n) {
    const Words words = AllWords(alphabet, n);
    for (int k = 1; k <= n; ++k) {
      for (const Direction direction :
           {Direction::kLargest, Direction::kSmallest}) {
        for (const Order order : {Order::kValue, Order::kIndex}) {
          PlanRequest request;
          request.dtype = alphabet.type;
          request.shape = {words.count, n};
          request.k = k;
          request.direction = direction;
          request.order = order;
          request.index_type = DType::kI32;
          const Result<Plan> plan = MakePlan(request, Limits());
          ASSERT_TRUE(plan.ok());
          for (const auto& backend : backends) {
            const auto prepared = backend->Prepare(*plan);
            if (!prepared.ok()) continue;
            std::string values(static_cast<size_t>(plan->values.bytes), '\0');
            std::vector<int32_t> indices(static_cast<size_t>(words.count * k));
            RunWhole(**prepared, std::as_bytes(std::span(words.data)),
                     {std::as_writable_bytes(std::span(values)),
                      std::as_writable_bytes(std::span(indices))});
            std::vector<int> expected(static_cast<size_t>(n));
            for (int64_t w = 0; w < words.count; ++w, ++checked) {
              const auto& word = words.letters[static_cast<size_t>(w)];
              const auto rank = [&](int i) {
                return ranks[static_cast<size_t>(word[static_cast<size_t>(i)])];
              };
              std::iota(expected.begin(), expected.end(), 0);
              std::stable_sort(
                  expected.begin(), expected.end(), [&](int a, int b) {
                    return direction == Direction::kLargest ? rank(a) > rank(b)
                                                            : rank(a) < rank(b);
                  });
              if (order == Order::kIndex) {
                std::sort(expected.begin(), expected.begin() + k);
              }
              for (int j = 0; j < k; ++j) {
                const auto at = static_cast<size_t>(w * k + j);
                const auto i =
                    static_cast<size_t>(expected[static_cast<size_t>(j)]);
                ASSERT_EQ(indices[at], static_cast<int32_t>(i))
                    << Describe(*backend) << ", word " << w << " of " << n
                    << ", k " << k;
                ASSERT_EQ(
                    ReadBits(type, values, at),
                    ReadBits(type, words.data, static_cast<size_t>(w * n) + i));
              }
            }
          }
        }
      }
    }
  }
  // The last backend accepts every plan, so it has checked every sequence.
  int64_t expected_checks = 0;
  for (int64_t n = 1, count = 1; n <= alphabet.max_n; ++n) {
    count *= static_cast<int64_t>(alphabet.letters.size());
    expected_checks += count * n * 4;
  }
  EXPECT_GE(checked, expected_checks);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Exhaustive, ::testing::ValuesIn(Alphabets()),
                         [](const auto& param) {
                           return std::string(InfoOf(param.param.type).name);
                         });

}  // namespace
}  // namespace topk::testing
