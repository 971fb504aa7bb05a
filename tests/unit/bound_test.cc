// Tests lower bounds of the k-th greatest key, certain and very likely ones.
#include "core/backends/cpu/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/base/dtype.h"

namespace topk::cpu {
namespace {

using Encoder = SortKeyEncoder<uint32_t, false>;

std::vector<uint32_t> RowOf(const char* family, size_t count) {
  std::vector<uint32_t> row(count, 7);
  std::mt19937 random(1);
  if (family[0] == 'r') {
    for (uint32_t& x : row) x = static_cast<uint32_t>(random());
  }
  if (family[0] == 'a') std::iota(row.begin(), row.end(), 1u);
  if (family[0] == 'd') std::iota(row.rbegin(), row.rend(), 1u);
  return row;
}

// Returns the number of elements that reach a bound.
int64_t Reach(const std::vector<uint32_t>& row, uint32_t bound) {
  return std::count_if(row.begin(), row.end(),
                       [bound](uint32_t x) { return x >= bound; });
}

TEST(Bounds, OfMediumRowsAreExceededByKElements) {
  const Encoder encoder(InfoOf(DType::kU32), true);
  for (const InstructionSet& set : SupportedInstructionSets()) {
    Bounds<uint32_t, false> bounds(set.kernels<uint32_t, false>(), encoder);
    for (const char* family : {"random", "ascending", "descending", "same"}) {
      for (const size_t count : {100, 1000, 4096}) {
        const std::vector<uint32_t> row = RowOf(family, count);
        for (const int64_t k : {1, 10, 40}) {
          bounds.Sample(reinterpret_cast<const std::byte*>(row.data()),
                        static_cast<int64_t>(count), k);
          const auto bound = bounds.Next();
          if (!bound) continue;
          EXPECT_GE(Reach(row, *bound), k) << family << count;
        }
      }
    }
  }
}

// Sampling is useful only if few more than k elements reach a bound.
TEST(Bounds, OfLongRowsAdmitFewElements) {
  const Encoder encoder(InfoOf(DType::kU32), true);
  constexpr size_t kCount = 1000000;
  for (const InstructionSet& set : SupportedInstructionSets()) {
    Bounds<uint32_t, false> bounds(set.kernels<uint32_t, false>(), encoder);
    for (const char* family : {"random", "ascending", "descending"}) {
      const std::vector<uint32_t> row = RowOf(family, kCount);
      for (const int64_t k : {1, 100, 10000}) {
        bounds.Sample(reinterpret_cast<const std::byte*>(row.data()), kCount,
                      k);
        int64_t reach = 0;
        int tries = 0;
        for (auto bound = bounds.Next(); bound; bound = bounds.Next()) {
          ++tries;
          const int64_t here = Reach(row, *bound);
          EXPECT_GE(here, reach) << "a later bound is lower";
          reach = here;
          if (reach >= k) break;
        }
        EXPECT_GE(reach, k) << family;
        EXPECT_LE(tries, 2) << family;
        // In a sorted row, up to a sixteenth of the row may reach the bound.
        EXPECT_LE(reach, family[0] == 'r' ? 4 * k + 2000
                                          : 20 * k + int64_t{kCount} / 16)
            << family << " k " << k << " " << set.name;
      }
    }
  }
}

TEST(Bounds, DoNotExistForEqualElements) {
  const Encoder encoder(InfoOf(DType::kU32), true);
  const std::vector<uint32_t> zeros(10000, 0);
  Bounds<uint32_t, false> bounds(
      SupportedInstructionSets().front().kernels<uint32_t, false>(), encoder);
  bounds.Sample(reinterpret_cast<const std::byte*>(zeros.data()), 10000, 5);
  EXPECT_FALSE(bounds.Next());
}

}  // namespace
}  // namespace topk::cpu
