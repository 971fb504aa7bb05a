// The table of element types, and the order of their sort keys.
#include "core/base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "core/base/with_sort_key_encoder.h"
#include "core/plan/plan.h"
#include "tests/support/oracle.h"
#include "topk/v1/tensor.pb.h"

namespace topk {
namespace {

using testing::Number;

// Returns the value of an element. Types smaller than a byte use its highest
// bits.
Number Meaning(DType type, uint64_t bits) {
  if (InfoOf(type).packed()) bits >>= 8 - InfoOf(type).bits;
  return testing::NumberOf(static_cast<v1::DataType>(type), bits);
}

// Expects that the keys order the patterns like their values, with NaN above
// all numbers: when values ascend, LARGEST keys ascend, SMALLEST keys descend,
// and equal values have equal keys.
template <class Key, bool kFloat>
void ExpectKeysInOrder(DType type, const std::vector<uint64_t>& patterns) {
  struct Row {
    Number number;
    Key bits;
  };
  std::vector<Row> rows;
  for (const uint64_t bits : patterns) {
    rows.push_back({Meaning(type, bits), static_cast<Key>(bits)});
  }
  std::ranges::stable_sort(
      rows, [](const Row& a, const Row& b) { return a.number < b.number; });
  const SortKeyEncoder<Key, kFloat> largest(InfoOf(type), true);
  const SortKeyEncoder<Key, kFloat> smallest(InfoOf(type), false);
  for (size_t i = 1; i < rows.size(); ++i) {
    const Key before = rows[i - 1].bits;
    const Key after = rows[i].bits;
    if (!(rows[i - 1].number < rows[i].number)) {
      ASSERT_EQ(largest(before), largest(after)) << +before << " " << +after;
      ASSERT_EQ(smallest(before), smallest(after)) << +before << " " << +after;
    } else {
      ASSERT_LT(largest(before), largest(after)) << +before << " " << +after;
      ASSERT_GT(smallest(before), smallest(after)) << +before << " " << +after;
    }
  }
}

// Returns all patterns of types of up to 16 bits. Types smaller than a byte use
// its highest bits. For wider types, returns the neighbors of every power of
// two, of infinity and of their negatives, and random bits.
std::vector<uint64_t> PatternsOf(const DTypeInfo& type) {
  std::vector<uint64_t> patterns;
  if (type.bits <= 16) {
    const int unused = type.packed() ? 8 - type.bits : 0;
    for (uint64_t p = 0; p < uint64_t{1} << type.bits; ++p) {
      patterns.push_back(p << unused);
    }
    return patterns;
  }
  const uint64_t all = ~uint64_t{0} >> (64 - type.bits);
  const auto add_near = [&](uint64_t bits) {
    for (uint64_t near = 0; near < 5; ++near) {
      const uint64_t p = bits + near - 2;
      patterns.insert(patterns.end(), {p & all, ~p & all});
    }
  };
  for (int i = 0; i < type.bits; ++i) add_near(uint64_t{1} << i);
  add_near(type.infinity);
  add_near(type.infinity | type.sign);
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) patterns.push_back(random() & all);
  return patterns;
}

TEST(SortKeyEncoder, OrdersEveryTypeLikeItsNumbers) {
  for (const DTypeInfo& type : kDTypes) {
    SCOPED_TRACE(type.name);
    WithSortKeyEncoder(
        Parameters{.dtype = type.type},
        [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>&) {
          ExpectKeysInOrder<Key, kFloat>(type.type, PatternsOf(type));
        });
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST(DTypes, MatchTheProtocol) {
  const auto& contract = *v1::DataType_descriptor();
  ASSERT_EQ(std::size(kDTypes),
            static_cast<size_t>(contract.value_count() - 1));  // unspecified
  for (int i = 1; i < contract.value_count(); ++i) {
    std::string name(contract.value(i)->name());
    name = name.substr(name.rfind('_') + 1);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    const int number = contract.value(i)->number();
    const DTypeInfo* row = FindDType(number);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_EQ(row->name, name);
    EXPECT_EQ(FindDType(name), row);
    EXPECT_EQ(&InfoOf(static_cast<DType>(number)), row);
    EXPECT_EQ(static_cast<size_t>(row->bits), testing::ElementBits(number));
    EXPECT_EQ(row->bytes, (row->bits + 7) / 8) << name;
    // Types without a sign bit are ordered by their codes.
    const bool codes = name == "nf4" || name == "f8e8m0";
    EXPECT_EQ(row->is_float, name.find('f') != std::string::npos && !codes)
        << name;
  }
}

}  // namespace
}  // namespace topk
