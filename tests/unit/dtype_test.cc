// The table of element types and the order of their keys.
#include "core/base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "core/base/sort_key_encoder.h"
#include "tests/support/oracle.h"
#include "topk/v1/tensor.pb.h"

namespace topk {
namespace {

using testing::Number;

// Of an element as it is computed with: of less than a byte in its highest
// bits.
Number Meaning(DType type, uint64_t bits) {
  if (InfoOf(type).packed()) bits >>= 8 - InfoOf(type).bits;
  return testing::NumberOf(static_cast<v1::DataType>(type), bits);
}

bool Equal(const Number& a, const Number& b) {
  return a.nan || b.nan ? a.nan && b.nan : a.value == b.value;
}

// Checks that keys order the patterns as their numbers do, NaN above all: along
// the patterns in ascending order of number, the keys of LARGEST never fall and
// those of SMALLEST never rise, and both stay the same just where the numbers
// are equal. That fixes the order of every pair.
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
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.number.nan || b.number.nan) return b.number.nan && !a.number.nan;
    return a.number.value < b.number.value;
  });
  const SortKeyEncoder<Key, kFloat> largest(InfoOf(type), true);
  const SortKeyEncoder<Key, kFloat> smallest(InfoOf(type), false);
  for (size_t i = 1; i < rows.size(); ++i) {
    const Key before = rows[i - 1].bits;
    const Key after = rows[i].bits;
    if (Equal(rows[i - 1].number, rows[i].number)) {
      ASSERT_EQ(largest(before), largest(after)) << +before << " " << +after;
      ASSERT_EQ(smallest(before), smallest(after)) << +before << " " << +after;
    } else {
      ASSERT_LT(largest(before), largest(after)) << +before << " " << +after;
      ASSERT_GT(smallest(before), smallest(after)) << +before << " " << +after;
    }
  }
}

std::vector<uint64_t> AllPatterns(int bits) {
  std::vector<uint64_t> patterns;
  for (uint64_t p = 0; p < uint64_t{1} << bits; ++p) patterns.push_back(p);
  return patterns;
}

// Every element of a type of a byte or less, as it is computed with.
std::vector<uint64_t> AllBytes(DType type) {
  const int bits = InfoOf(type).bits;
  std::vector<uint64_t> patterns = AllPatterns(bits);
  for (uint64_t& pattern : patterns) pattern <<= 8 - bits;
  return patterns;
}

// The neighbours of every power of two, both signs, and random bits.
std::vector<uint64_t> SomePatterns(int bits) {
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> patterns = {0, all};
  for (int i = 0; i < bits; ++i) {
    for (int64_t delta = -2; delta <= 2; ++delta) {
      const uint64_t p = (uint64_t{1} << i) + static_cast<uint64_t>(delta);
      patterns.insert(patterns.end(), {p & all, ~p & all});
    }
    patterns.push_back(all << i & all);
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) patterns.push_back(random() & all);
  return patterns;
}

TEST(SortKeyEncoder, OrdersEveryF16) {
  ExpectKeysInOrder<uint16_t, true>(DType::kF16, AllPatterns(16));
}
TEST(SortKeyEncoder, OrdersEveryBF16) {
  ExpectKeysInOrder<uint16_t, true>(DType::kBF16, AllPatterns(16));
}
TEST(SortKeyEncoder, OrdersEveryI8) {
  ExpectKeysInOrder<uint8_t, false>(DType::kI8, AllPatterns(8));
}
TEST(SortKeyEncoder, OrdersEveryU8) {
  ExpectKeysInOrder<uint8_t, false>(DType::kU8, AllPatterns(8));
}
TEST(SortKeyEncoder, OrdersEveryI16) {
  ExpectKeysInOrder<uint16_t, false>(DType::kI16, AllPatterns(16));
}
TEST(SortKeyEncoder, OrdersEveryU16) {
  ExpectKeysInOrder<uint16_t, false>(DType::kU16, AllPatterns(16));
}
// Against what their codes stand for, which is not in the table.
TEST(SortKeyEncoder, OrdersEveryElementOfAByteOrLess) {
  for (const DType type :
       {DType::kU1, DType::kU2, DType::kU3, DType::kU4, DType::kU6, DType::kI4,
        DType::kNF4, DType::kF8E8M0}) {
    SCOPED_TRACE(InfoOf(type).name);
    ExpectKeysInOrder<uint8_t, false>(type, AllBytes(type));
  }
  for (const DType type : {DType::kF4E2M1, DType::kF8E4M3, DType::kF8E5M2}) {
    SCOPED_TRACE(InfoOf(type).name);
    ExpectKeysInOrder<uint8_t, true>(type, AllBytes(type));
  }
}

TEST(SortKeyEncoder, OrdersF32) {
  std::vector<uint64_t> patterns = SomePatterns(32);
  patterns.insert(patterns.end(),
                  {0x7F800000, 0x7F800001, 0x7F7FFFFF, 0xFF800000, 0xFF800001,
                   0xFF7FFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000});
  ExpectKeysInOrder<uint32_t, true>(DType::kF32, patterns);
}
TEST(SortKeyEncoder, OrdersF64) {
  std::vector<uint64_t> patterns = SomePatterns(64);
  patterns.insert(patterns.end(),
                  {0x7FF0000000000000, 0x7FF0000000000001, 0x7FEFFFFFFFFFFFFF,
                   0xFFF0000000000000, 0xFFF0000000000001, 0xFFEFFFFFFFFFFFFF});
  ExpectKeysInOrder<uint64_t, true>(DType::kF64, patterns);
}
TEST(SortKeyEncoder, OrdersI32) {
  ExpectKeysInOrder<uint32_t, false>(DType::kI32, SomePatterns(32));
}
TEST(SortKeyEncoder, OrdersU32) {
  ExpectKeysInOrder<uint32_t, false>(DType::kU32, SomePatterns(32));
}
TEST(SortKeyEncoder, OrdersI64) {
  ExpectKeysInOrder<uint64_t, false>(DType::kI64, SomePatterns(64));
}
TEST(SortKeyEncoder, OrdersU64) {
  ExpectKeysInOrder<uint64_t, false>(DType::kU64, SomePatterns(64));
}

// Semantics, section 1, to the letter.
TEST(SortKeyEncoder, F32KeysFollowTheSemantics) {
  const SortKeyEncoder<uint32_t, true> largest(InfoOf(DType::kF32), true);
  const SortKeyEncoder<uint32_t, true> smallest(InfoOf(DType::kF32), false);
  EXPECT_EQ(largest(0x7FC00000), 0xFFFFFFFFu);  // NaN
  EXPECT_EQ(largest(0xFF800001), 0xFFFFFFFFu);  // -NaN with a payload
  EXPECT_EQ(largest(0x00000000), 0x80000000u);
  EXPECT_EQ(largest(0x80000000), 0x80000000u);  // -0
  EXPECT_EQ(largest(0x3F800000), 0xBF800000u);  // 1
  EXPECT_EQ(largest(0xBF800000), 0x407FFFFFu);  // -1
  EXPECT_EQ(largest(0x7F800000), 0xFF800000u);  // inf
  EXPECT_EQ(largest(0xFF800000), 0x007FFFFFu);  // -inf
  for (const uint32_t bits : {0x7FC00000u, 0u, 0x80000000u, 0xBF800000u}) {
    EXPECT_EQ(smallest(bits), ~largest(bits));
  }
}

TEST(DTypes, MatchTheProtocol) {
  const auto& contract = *v1::DataType_descriptor();
  ASSERT_EQ(DTypes().size(),
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
    // Those of one sign are in the order of their codes.
    const bool codes = name == "nf4" || name == "f8e8m0";
    EXPECT_EQ(row->is_float, name.find('f') != std::string::npos && !codes)
        << name;
  }
}

TEST(DTypes, AreNotFoundByUnknownNumbersAndNames) {
  for (const int number : {-1, 0, 24, 1 << 30}) {
    EXPECT_EQ(FindDType(number), nullptr) << number;
  }
  for (const char* name : {"", "f", "F32", "f32 ", "float", "f8"}) {
    EXPECT_EQ(FindDType(std::string_view(name)), nullptr) << name;
  }
}

TEST(CheckedBytes, RoundsUpToWholeBytes) {
  struct Row {
    DType type;
    int64_t count, bytes;
  };
  constexpr int64_t kMax = INT64_MAX;
  for (const Row& row :
       {Row{DType::kU1, 8, 1}, Row{DType::kU1, 9, 2}, Row{DType::kU2, 5, 2},
        Row{DType::kU3, 8, 3}, Row{DType::kU3, 9, 4}, Row{DType::kU4, 3, 2},
        Row{DType::kU6, 4, 3}, Row{DType::kU6, 5, 4}, Row{DType::kI4, 0, 0},
        Row{DType::kF8E5M2, 7, 7}, Row{DType::kU1, kMax, int64_t{1} << 60},
        Row{DType::kF32, kMax / 4, kMax / 4 * 4}}) {
    int64_t bytes = -1;
    EXPECT_TRUE(CheckedBytes(InfoOf(row.type), row.count, &bytes));
    EXPECT_EQ(bytes, row.bytes) << InfoOf(row.type).name << " " << row.count;
  }
  int64_t bytes = 0;
  EXPECT_FALSE(CheckedBytes(InfoOf(DType::kF64), kMax / 4, &bytes));
}

TEST(MaxIndex, IsTheGreatestOfTheType) {
  EXPECT_EQ(MaxIndex(DType::kI32), 2147483647);
  EXPECT_EQ(MaxIndex(DType::kU32), 4294967295);
  EXPECT_EQ(MaxIndex(DType::kI64), INT64_MAX);
  EXPECT_EQ(MaxIndex(DType::kU64), INT64_MAX);  // as far as int64 reaches
}

}  // namespace
}  // namespace topk
