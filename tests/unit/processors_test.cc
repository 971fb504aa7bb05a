// How many processors: cgroup texts and the affinity mask.
#include "core/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace topk {
namespace {

TEST(ProcessorsOfQuota, ReadsCpuMaxOfCgroupV2) {
  EXPECT_EQ(ProcessorsOfQuota("200000 100000\n"), 2);
  EXPECT_EQ(ProcessorsOfQuota("400000 100000"), 4);
  EXPECT_EQ(ProcessorsOfQuota("100000 50000"), 2);
}

TEST(ProcessorsOfQuota, RoundsUpToAProcessor) {
  EXPECT_EQ(ProcessorsOfQuota("150000 100000"), 2);
  EXPECT_EQ(ProcessorsOfQuota("100001 100000"), 2);
  EXPECT_EQ(ProcessorsOfQuota("99999 100000"), 1);
  EXPECT_EQ(ProcessorsOfQuota("1 100000"), 1);
}

TEST(ProcessorsOfQuota, ReadsTheTwoFilesOfCgroupV1) {
  EXPECT_EQ(ProcessorsOfQuota("250000\n 100000\n"), 3);
}

TEST(ProcessorsOfQuota, ReportsNoLimit) {
  EXPECT_EQ(ProcessorsOfQuota("max 100000\n"), 0);
  EXPECT_EQ(ProcessorsOfQuota("-1\n 100000\n"), 0);
}

TEST(ProcessorsOfQuota, ReadsInvalidTextAsNoLimit) {
  for (const char* text : {"", " ", "100000", "a b", "0 100000", "100000 0",
                           "100000 -5", "1e5 1e5x"}) {
    EXPECT_LE(ProcessorsOfQuota(text), 1) << text;
  }
  EXPECT_EQ(ProcessorsOfQuota(""), 0);
  EXPECT_EQ(ProcessorsOfQuota("100000"), 0);
  EXPECT_EQ(ProcessorsOfQuota("a b"), 0);
  EXPECT_EQ(ProcessorsOfQuota("0 100000"), 0);
  EXPECT_EQ(ProcessorsOfQuota("100000 0"), 0);
  EXPECT_EQ(ProcessorsOfQuota("100000 -5"), 0);
}

TEST(ProcessorsOfQuota, BoundsAHugeQuota) {
  const int huge = ProcessorsOfQuota("9223372036854775807 1");
  EXPECT_GE(huge, 1024);
  EXPECT_LE(huge, 1 << 20);
}

TEST(AvailableProcessors, IsAtLeastOne) { EXPECT_GE(AvailableProcessors(), 1); }

TEST(AvailableProcessors, FollowsTheAffinityMask) {
  int count = 0;
  std::thread([&] {  // a separate thread, so that the mask ends with it
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int one = 0;
    while (!CPU_ISSET(one, &mask)) ++one;
    CPU_ZERO(&mask);
    CPU_SET(one, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    count = AvailableProcessors();
  })
      .join();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace topk
