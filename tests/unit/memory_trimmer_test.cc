// When to return free memory to the OS.
#include "server/memory_trimmer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace topk {
namespace {

constexpr double kSmall = 100e6;
constexpr double kLarge = 900e6;

// Returns the number of trims in `seconds` seconds.
int Trims(TrimRule& rule, int seconds, double size, bool works) {
  int trims = 0;
  for (int i = 0; i < seconds; ++i) trims += rule.IsDue(size, works);
  return trims;
}

TEST(TrimRule, StopsAfterTheLastWork) {
  TrimRule rule(kSmall, int64_t{8} << 30);
  EXPECT_EQ(Trims(rule, 300, kLarge, /*works=*/true), 10);
  // The memory may be in use, so the process may stay large.
  EXPECT_EQ(Trims(rule, 120, kLarge, /*works=*/false), 40);
  EXPECT_EQ(Trims(rule, 10'000, kLarge, /*works=*/false), 0);
  EXPECT_EQ(Trims(rule, 1, kLarge, /*works=*/true), 1);
}

TEST(TrimRule, LeavesASmallProcessAlone) {
  TrimRule rule(kSmall, int64_t{8} << 30);
  EXPECT_EQ(Trims(rule, 1000, kSmall + 1e6, /*works=*/true), 0);
  EXPECT_EQ(Trims(rule, 1, kLarge, /*works=*/true), 1);
}

}  // namespace
}  // namespace topk
