// When to return free memory to the OS.
#include "server/memory_trimmer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace topk {
namespace {

constexpr double kSmall = 100e6;
constexpr double kLarge = 900e6;

// A process with 8 GiB of memory.
class Process {
 public:
  // Returns the number of trims in `seconds` seconds with this size and load.
  int Trims(int seconds, double size, double processors) {
    int trims = 0;
    for (int i = 0; i < seconds; ++i) {
      trims += rule_.IsDue(size, cpu_seconds_ += processors);
    }
    return trims;
  }

 private:
  double cpu_seconds_ = 1;
  TrimRule rule_{kSmall, int64_t{8} << 30};
};

TEST(TrimRule, TrimsAgainOnlyAfterMoreWork) {
  Process process;
  EXPECT_EQ(process.Trims(1, kLarge, 1), 1);
  // The memory may be in use, so the process may stay large.
  EXPECT_EQ(process.Trims(10'000, kLarge, 0), 0);
  EXPECT_EQ(process.Trims(1, kLarge, 1), 1);
}

TEST(TrimRule, TrimsRarelyDuringWorkAndOnceAfterIt) {
  Process process;
  EXPECT_EQ(process.Trims(300, kLarge, 1), 10);
  EXPECT_EQ(process.Trims(1000, kLarge, 0), 1);
}

TEST(TrimRule, LeavesASmallProcessAlone) {
  Process process;
  EXPECT_EQ(process.Trims(1000, kSmall + 1e6, 1), 0);
  EXPECT_EQ(process.Trims(1, kLarge, 1), 1);
}

}  // namespace
}  // namespace topk
