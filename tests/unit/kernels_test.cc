// Properties of the kernels that affect speed but not results.
// conformance/random_test.cc checks the results.
#include "core/backends/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/backends/cpu/selection.h"
#include "core/base/dtype.h"
#include "core/base/elements.h"
#include "tests/unit/encoders.h"

namespace topk::cpu {
namespace {

// Calls fn(kernels, encoder, type) for every instruction set, type and
// direction.
template <class Fn>
void ForAll(const Fn& fn) {
  for (const InstructionSet& set : SupportedInstructionSets()) {
    SCOPED_TRACE(set.name);
    testing::ForEachEncoder(
        [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>& encoder,
                                    const DTypeInfo& type) {
          fn(set.kernels<Key, kFloat>(), encoder, type);
        });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Kernels, EachInstructionSetHasItsOwn) {
  const auto sets = SupportedInstructionSets();
  for (size_t i = 1; i < sets.size(); ++i) {
    EXPECT_NE((sets[i].kernels<uint32_t, true>().scan),
              (sets[0].kernels<uint32_t, true>().scan));
  }
}

// Rows of `n` different numbers in random order, their k largest, and the rows
// that the kernel leaves.
template <class Key, bool kFloat>
class Rows {
 public:
  static constexpr int64_t kCount = 70;

  Rows(std::mt19937_64& random, const DTypeInfo& type, int64_t n)
      : n_(n), elements_(static_cast<size_t>(kCount * n)) {
    for (int64_t row = 0; row < kCount; ++row) {
      const auto first = elements_.begin() + row * n;
      std::iota(first, first + n, Key{0});
      std::shuffle(first, first + n, random);
    }
    const int shift = 8 * type.bytes - type.bits;
    for (Key& x : elements_) x = static_cast<Key>(x << shift);
  }

  // Makes all elements of a row equal.
  void Tie(int64_t row) {
    std::fill_n(elements_.begin() + row * n_, n_, Key{1});
  }

  // Returns the rows that are left to the caller, in order.
  std::vector<int64_t> Left(const Kernels<Key, kFloat>& kernels,
                            const SortKeyEncoder<Key, kFloat>& encoder,
                            int64_t k) const {
    std::vector<std::byte> values(static_cast<size_t>(kCount * k) *
                                  sizeof(Key));
    const ShortRows<Key> rows = {
        reinterpret_cast<const std::byte*>(elements_.data()),
        kCount,
        n_,
        k,
        false,
        values.data(),
        nullptr,
        4,
        0};
    std::vector<int64_t> left;
    for (int64_t begin = 0; begin < kCount; begin += kShortRowsAtOnce) {
      const uint64_t mask = kernels.select_short_rows(encoder, rows, begin);
      for (int64_t i = 0; i < kShortRowsAtOnce; ++i) {
        if (mask >> i & 1) left.push_back(begin + i);
      }
    }
    return left;
  }

 private:
  const int64_t n_;
  std::vector<Key> elements_;
};

// Without ties, at least k elements reach the bound of a row, and rarely too
// many do. This holds for any length, whether or not it fills whole vectors.
TEST(Kernels, ShortRowsWithoutTiesAreNotLeft) {
  std::mt19937_64 random(7);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t n : {33, 47, 63, 64, 65, 100, 256, 1000}) {
      // Small positive numbers are different even in types of 8 bits.
      if (n > (type.bits < 8 ? 1 << type.bits : 256)) continue;
      if (n > 100 && kFloat && type.bits == 8) continue;
      const Rows<Key, kFloat> rows(random, type, n);
      for (int64_t k = 1; k <= kShortK; ++k) {
        EXPECT_LT(rows.Left(kernels, encoder, k).size(), 6u)
            << "n " << n << " k " << k;
      }
    }
  });
}

TEST(Kernels, OnlyRowsWithTiesAreLeft) {
  std::mt19937_64 random(8);
  const std::vector<int64_t> tied = {0, 5, 6, 63, 64, 69};
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    if (type.bits < 8) return;
    Rows<Key, kFloat> rows(random, type, 100);
    for (const int64_t row : tied) rows.Tie(row);
    EXPECT_EQ(rows.Left(kernels, encoder, 1), tied);
  });
}

}  // namespace
}  // namespace topk::cpu
