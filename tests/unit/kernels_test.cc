// Every kernel of every instruction set against the loop that it stands for.
#include "core/backends/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/base/dtype.h"
#include "core/base/elements.h"
#include "core/base/with_sort_key_encoder.h"
#include "tests/unit/best.h"

namespace topk::cpu {
namespace {

// Calls fn(kernels, encoder, type) for every instruction set, type and
// direction.
template <class Fn>
void ForAll(const Fn& fn) {
  for (const InstructionSet& set : SupportedInstructionSets()) {
    for (const DTypeInfo& type : DTypes()) {
      for (const bool largest : {true, false}) {
        SCOPED_TRACE(std::string(set.name) + " " + std::string(type.name) +
                     (largest ? " largest" : " smallest"));
        WithSortKeyEncoder(type, largest,
                           [&]<class Key, bool kFloat>(
                               const SortKeyEncoder<Key, kFloat>& encoder) {
                             fn(set.kernels<Key, kFloat>(), encoder, type);
                           });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Elements at an address that is aligned to nothing.
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

// The keys of elements.
template <class Key, bool kFloat>
std::vector<Key> KeysOf(const SortKeyEncoder<Key, kFloat>& encoder,
                        Elements<Key>& elements, int64_t count) {
  std::vector<Key> keys;
  for (int64_t i = 0; i < count; ++i) keys.push_back(encoder(elements[i]));
  return keys;
}

TEST(Kernels, ScanFindsElementsAboveABound) {
  std::mt19937_64 random(1);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t count : {0, 1, 63, 64, 65, 700, 3000}) {
      Elements<Key> elements(random, type, count + 1);
      const Key bound = encoder(elements[0]);
      if (bound == static_cast<Key>(~Key{0})) continue;
      std::vector<uint32_t> expected;
      for (int64_t i = 0; i < count; ++i) {
        if (encoder(elements[i]) > bound) {
          expected.push_back(static_cast<uint32_t>(i));
        }
      }
      // Little room: it stops, and goes on where it stopped.
      const int64_t room = kScanSlack + static_cast<int64_t>(random() % 200);
      std::vector<uint32_t> found;
      for (int64_t begin = 0; begin < count;) {
        std::vector<uint32_t> positions(static_cast<size_t>(room));
        const Scanned scanned =
            kernels.scan(ProbeAbove(encoder, bound), elements.at(begin),
                         count - begin, positions.data(), room);
        ASSERT_GT(scanned.elements, 0);
        ASSERT_LE(scanned.found, room);
        for (int64_t p = 0; p < scanned.found; ++p) {
          found.push_back(static_cast<uint32_t>(begin) +
                          positions[static_cast<size_t>(p)]);
        }
        begin += scanned.elements;
      }
      ASSERT_EQ(found, expected) << count;
    }
  });
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
        // Among the smallest no number's key is less than that of infinity.
        const Key least = std::max<Key>(1, kFloat && encoder.flip != 0
                                               ? encoder(encoder.infinity)
                                               : Key{1});
        for (size_t r = 0; r < maxima.size() && maxima[r] >= least; ++r) {
          const auto reach = std::count_if(
              keys.begin(), keys.end(),
              [&](Key key) { return key >= BoundFrom(encoder, maxima[r]); });
          ASSERT_GE(reach, static_cast<int64_t>(r) + 1);
        }
        // And it is not far too low: all whole vectors were looked at.
        if (count == lanes && !kFloat) {
          ASSERT_EQ(maxima[0], *std::max_element(keys.begin(), keys.end()));
        }
      }
    }
  });
}

TEST(Kernels, KthIsALowerBoundOfTheTopK) {
  std::mt19937_64 random(3);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t count : {1, 2, 63, 64, 500}) {
      Elements<Key> elements(random, type, count);
      std::vector<Key> keys = KeysOf(encoder, elements, count);
      std::vector<Key> sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<Key>());
      for (const int64_t k : {int64_t{1}, count / 3 + 1, count}) {
        const Key bar = kernels.kth(keys.data(), count, k);
        const auto reach = std::count_if(keys.begin(), keys.end(),
                                         [bar](Key key) { return key >= bar; });
        if (reach != k) {
          ASSERT_EQ(bar, sorted[static_cast<size_t>(k) - 1]);
        }
      }
    }
  });
}

TEST(Kernels, ScanColumnsFindsElementsAboveTheirBounds) {
  std::mt19937_64 random(4);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t count : {1, 63, 64, 200}) {
      Elements<Key> elements(random, type, count);
      Elements<Key> others(random, type, count);
      const std::vector<Key> bounds = KeysOf(encoder, others, count);
      std::vector<uint32_t> expected;
      for (int64_t c = 0; c < count; ++c) {
        if (encoder(elements[c]) > bounds[static_cast<size_t>(c)]) {
          expected.push_back(static_cast<uint32_t>(c));
        }
      }
      std::vector<uint32_t> found(static_cast<size_t>(count + kScanSlack));
      found.resize(static_cast<size_t>(kernels.scan_columns(
          encoder, elements.at(0), count, bounds.data(), found.data())));
      ASSERT_EQ(found, expected);
    }
  });
}

TEST(Kernels, TransposeCopiesEveryElementAndNoOther) {
  std::mt19937_64 random(8);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>&,
                                     const DTypeInfo& type) {
    for (const int64_t rows : {1, 15, 16, 33}) {
      for (const int64_t columns : {1, 7, 16, 50}) {
        const int64_t pitch = columns + 3;
        const int64_t transposed_pitch = rows + 2;
        Elements<Key> elements(random, type, rows * pitch);
        const auto untouched = static_cast<Key>(random());
        std::vector<Key> expected(
            static_cast<size_t>(columns * transposed_pitch), untouched);
        std::vector<Key> transposed = expected;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            expected[static_cast<size_t>(c * transposed_pitch + r)] =
                elements[r * pitch + c];
          }
        }
        kernels.transpose(elements.at(0), rows, columns, pitch,
                          std::as_writable_bytes(std::span(transposed)).data(),
                          transposed_pitch);
        ASSERT_EQ(transposed, expected) << rows << " x " << columns;
      }
    }
  });
}

TEST(Kernels, RankIsAStableSort) {
  std::mt19937_64 random(5);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t count : {int64_t{1}, int64_t{7}, kMaxRankCount}) {
      Elements<Key> elements(random, type, count);
      const std::vector<Key> some = KeysOf(encoder, elements, count);
      alignas(kVectorBytes) Key keys[kMaxRankCount + kVectorBytes] = {};
      alignas(kVectorBytes) Key ranks[kMaxRankCount + kVectorBytes];
      std::copy(some.begin(), some.end(), keys);
      kernels.rank(keys, count, ranks);
      const std::vector<size_t> best =
          testing::BestSlots(some, static_cast<size_t>(count));
      for (size_t r = 0; r < best.size(); ++r) {
        ASSERT_EQ(ranks[best[r]], r);
      }
    }
  });
}

template <class Index>
void TestShortRows() {
  std::mt19937_64 random(6);
  int64_t done = 0;
  int64_t left = 0;
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    for (const int64_t n : {1, 5, 32, 33, 64, 150, 256, 1000}) {
      for (const int64_t k :
           {int64_t{1}, int64_t{5}, int64_t{8}, int64_t{11}, kShortK}) {
        if (k > n) continue;
        for (const bool by_index : {false, true}) {
          constexpr int64_t kCount = 11;
          Elements<Key> elements(random, type, kCount * n);
          // With one more behind each, which must stay as it is.
          constexpr auto kKept = static_cast<Key>(0x5A5A5A5A5A5A5A5A);
          const auto outputs = static_cast<size_t>(kCount * k);
          std::vector<Key> values(outputs + 1, kKept);
          std::vector<Index> indices(outputs + 1, Index{77});
          const ShortRows<Key> rows = {
              elements.at(0),
              kCount,
              n,
              k,
              by_index,
              reinterpret_cast<std::byte*>(values.data()),
              reinterpret_cast<std::byte*>(indices.data()),
              sizeof(Index),
              100};
          for (int64_t row = 0; row < kCount;) {
            const int64_t next = kernels.select_short_rows(encoder, rows, row);
            ASSERT_GE(next, row);
            for (; row < next; ++row, ++done) {
              std::vector<Key> keys;
              for (int64_t i = 0; i < n; ++i) {
                keys.push_back(encoder(elements[row * n + i]));
              }
              const auto best =
                  by_index
                      ? testing::BestSlotsInOrder(keys, static_cast<size_t>(k))
                      : testing::BestSlots(keys, static_cast<size_t>(k));
              for (int64_t j = 0; j < k; ++j) {
                const auto at = static_cast<size_t>(row * k + j);
                const auto i =
                    static_cast<int64_t>(best[static_cast<size_t>(j)]);
                ASSERT_EQ(indices[at], i + 100) << "n " << n << " k " << k;
                ASSERT_EQ(values[at], elements[row * n + i]);
              }
            }
            ASSERT_EQ(values[outputs], kKept);
            ASSERT_EQ(indices[outputs], Index{77});
            if (row < kCount) {
              ASSERT_GT(n, 32);
              ++row;
              ++left;
            }
          }
        }
      }
    }
  });
  EXPECT_GT(done, left);  // those left are the ties
  EXPECT_GT(left, 0);
}

TEST(Kernels, ShortRowsAreRightOrDeclined) {
  TestShortRows<uint32_t>();
  TestShortRows<uint64_t>();
}

// Without ties at least k reach the bound of a row, and hardly ever too many.
TEST(Kernels, ShortRowsWithoutTiesAreNotDeclined) {
  std::mt19937_64 random(7);
  constexpr int64_t kCount = 64;
  constexpr int64_t kN = 256;
  std::vector<uint32_t> elements(kCount * kN);
  std::iota(elements.begin(), elements.end(), 0u);
  std::ranges::shuffle(elements, random);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo&) {
    if constexpr (std::is_same_v<Key, uint32_t> && !kFloat) {
      for (int64_t k = 1; k <= kShortK; ++k) {
        std::vector<std::byte> values(static_cast<size_t>(kCount * k) * 4);
        const ShortRows<Key> rows = {
            reinterpret_cast<const std::byte*>(elements.data()),
            kCount,
            kN,
            k,
            false,
            values.data(),
            nullptr,
            4,
            0};
        int64_t left = 0;
        for (int64_t row = 0; row < kCount; ++row) {
          row = kernels.select_short_rows(encoder, rows, row);
          left += row < kCount;
        }
        EXPECT_LT(left, 5) << "k " << k;
      }
    }
  });
}

TEST(Kernels, ColumnsAreRightForAnyChunking) {
  std::mt19937_64 random(7);
  ForAll([&]<class Key, bool kFloat>(const Kernels<Key, kFloat>& kernels,
                                     const SortKeyEncoder<Key, kFloat>& encoder,
                                     const DTypeInfo& type) {
    if (sizeof(Key) < 4) {
      ASSERT_EQ(kernels.feed_columns, nullptr);
      return;
    }
    using State = ColumnState<Key>;
    for (const int64_t columns : {1, 7, 16, 40, 1030}) {
      for (const int64_t k : {int64_t{1}, int64_t{5}, kColumnK}) {
        const int64_t n = k + static_cast<int64_t>(random() % 40);
        const int64_t pitch = columns + 3;
        Elements<Key> elements(random, type, n * pitch);
        const auto size = static_cast<size_t>(State::Elements(columns, k));
        std::vector<Key> memory(size + kVectorBytes);
        void* aligned = memory.data();
        size_t space = memory.size() * sizeof(Key);
        std::align(kVectorBytes, size * sizeof(Key), aligned, space);
        const State state = State::In(static_cast<Key*>(aligned), columns, k);
        const int64_t first = n / 3;  // in two goes
        kernels.feed_columns(encoder, state, elements.at(0), first, pitch, 0);
        kernels.feed_columns(encoder, state, elements.at(first * pitch),
                             n - first, pitch, first);
        for (int64_t c = 0; c < columns; ++c) {
          std::vector<Key> keys;
          for (int64_t i = 0; i < n; ++i) {
            keys.push_back(encoder(elements[i * pitch + c]));
          }
          const std::vector<size_t> best =
              testing::BestSlots(keys, static_cast<size_t>(k));
          for (int64_t j = 0; j < k; ++j) {
            const size_t i = best[static_cast<size_t>(j)];
            ASSERT_EQ(*state.at(c, j), keys[i]);
            ASSERT_EQ(state.at(c, j)[k * State::kBlock], static_cast<Key>(i))
                << "column " << c << " rank " << j << " n " << n;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace topk::cpu
