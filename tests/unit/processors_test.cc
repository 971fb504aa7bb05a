// The number of processors according to cgroup files and the affinity mask.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <utility>

#include "core/common/process_limits.h"

namespace topk {
namespace {

// File contents of cgroup v2 and v1. 0 = no limit.
TEST(ProcessorsOfQuota, RoundsUpAndIgnoresInvalidText) {
  for (const auto& [text, processors] :
       {std::pair("200000 100000\n", 2), std::pair("400000 100000", 4),
        std::pair("100000 50000", 2), std::pair("150000 100000", 2),
        std::pair("100001 100000", 2), std::pair("99999 100000", 1),
        std::pair("1 100000", 1), std::pair("250000\n 100000\n", 3),
        std::pair("max 100000\n", 0), std::pair("-1\n 100000\n", 0),
        std::pair("", 0), std::pair(" ", 0), std::pair("100000", 0),
        std::pair("a b", 0), std::pair("0 100000", 0), std::pair("100000 0", 0),
        std::pair("100000 -5", 0)}) {
    EXPECT_EQ(ProcessorsOfQuota(text), processors) << text;
  }
}

TEST(ProcessorsOfQuota, BoundsAHugeQuota) {
  const int huge = ProcessorsOfQuota("9223372036854775807 1");
  EXPECT_GE(huge, 1024);
  EXPECT_LE(huge, 1 << 20);
}

TEST(AvailableProcessors, FollowsTheAffinityMask) {
  int count = 0;
  // On another thread, so that the mask of this one does not change.
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int one = 0;
    while (!CPU_ISSET(one, &mask)) ++one;
    CPU_ZERO(&mask);
    CPU_SET(one, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    count = AvailableProcessors();
  }).join();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace topk
