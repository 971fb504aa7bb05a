// Properties of the kernels that affect speed but not results.
// conformance/random_test.cc and fuzz.kernels check the results.
#include "core/backends/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
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

// Elements at an unaligned address.
template <class Key>
class Elements {
 public:
  Elements(std::mt19937_64& random, const DTypeInfo& type, int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(Key) + 1) {
    const uint64_t family = random() % 4;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t x = random();
      if (family == 1) x = random() % 3;                      // ties
      if (family == 2) x = random() % 2 ? type.sign : 0;      // zeros
      if (family == 3) x = type.infinity + random() % 5 - 2;  // NaNs
      if (family == 3 && random() % 2) x |= type.sign;
      const auto bits = static_cast<Key>(x);
      std::memcpy(at(i), &bits, sizeof(Key));
    }
  }
  std::byte* at(int64_t i) {
    return bytes_.data() + 1 + i * static_cast<int64_t>(sizeof(Key));
  }
  Key operator[](int64_t i) { return Load<Key>(at(0), i); }

 private:
  std::vector<std::byte> bytes_;
};

template <class Key, bool kFloat>
std::vector<Key> KeysOf(const SortKeyEncoder<Key, kFloat>& encoder,
                        Elements<Key>& elements, int64_t count) {
  std::vector<Key> keys;
  for (int64_t i = 0; i < count; ++i) keys.push_back(encoder(elements[i]));
  return keys;
}

TEST(Kernels, EachInstructionSetHasItsOwn) {
  const auto sets = SupportedInstructionSets();
  for (size_t i = 1; i < sets.size(); ++i) {
    EXPECT_NE((sets[i].kernels<uint32_t, true>().scan),
              (sets[0].kernels<uint32_t, true>().scan));
  }
}

TEST(Kernels, MaximaAreBounds) {
  std::mt19937_64 random(2);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    const int64_t lanes = kVectorBytes / static_cast<int64_t>(sizeof(Key));
    for (const int64_t groups : {lanes, 4 * lanes}) {
      for (const int64_t count : {int64_t{1}, lanes, 1000 + lanes / 2}) {
        Elements<Key> elements(random, type, count);
        std::vector<Key> maxima(static_cast<size_t>(groups), Key{0});
        kernels.raise_maxima(encoder, elements.at(0), count, maxima.data(),
                             groups);
        std::sort(maxima.begin(), maxima.end(), std::greater<Key>());
        const std::vector<Key> keys = KeysOf(encoder, elements, count);
        for (size_t r = 0; r < maxima.size() && maxima[r] > 0; ++r) {
          const auto reach =
              std::count_if(keys.begin(), keys.end(),
                            [&](Key key) { return key >= maxima[r]; });
          ASSERT_GE(reach, static_cast<int64_t>(r) + 1);
        }
        // The kernel reads all whole vectors, so the bound is not far too low.
        if (count == lanes) {
          ASSERT_EQ(maxima[0], *std::max_element(keys.begin(), keys.end()));
        }
      }
    }
  });
}

// Expects that exactly k keys reach `found`, or that it is the k-th greatest.
template <class Key>
void ExpectKth(std::vector<Key> keys, int64_t k, Key found) {
  const auto reach = std::count_if(keys.begin(), keys.end(),
                                   [&](Key key) { return key >= found; });
  if (reach == k) return;
  std::sort(keys.begin(), keys.end(), std::greater<Key>());
  EXPECT_EQ(found, keys[static_cast<size_t>(k) - 1]) << "k " << k;
}

TEST(Kernels, KthIsALowerBoundOfTheTopK) {
  std::mt19937_64 random(3);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t count : {1, 2, 63, 64, 500}) {
      Elements<Key> elements(random, type, count);
      std::vector<Key> keys = KeysOf(encoder, elements, count);
      for (const int64_t k : {int64_t{1}, count / 3 + 1, count}) {
        ExpectKth(keys, k, kernels.kth(keys.data(), count, k));
      }
    }
  });
}

template <class Key>
void ExpectKthOfManyKeys() {
  std::mt19937_64 random(9);
  constexpr int64_t kCount = kKthMost + 1001;
  // More keys than the kernel supports.
  const auto unused = [](const Key*, int64_t, int64_t) {
    ADD_FAILURE() << "the kernel must not be called";
    return Key{0};
  };
  for (const uint64_t distinct : {uint64_t{1}, uint64_t{3000}, ~uint64_t{0}}) {
    std::vector<Key> keys(kCount);
    for (Key& key : keys) key = static_cast<Key>(~(random() % distinct));
    for (const int64_t k : {int64_t{1}, int64_t{999}, kCount / 2, kCount}) {
      ExpectKth(keys, k, KthOf<Key>(unused, keys.data(), kCount, k, nullptr));
    }
  }
}

TEST(Kernels, KthOfManyKeysIsALowerBoundOfTheTopK) {
  ExpectKthOfManyKeys<uint8_t>();
  ExpectKthOfManyKeys<uint16_t>();
  ExpectKthOfManyKeys<uint32_t>();
  ExpectKthOfManyKeys<uint64_t>();
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
