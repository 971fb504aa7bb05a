// Which lines pass the limiter, and how many.
#include "server/telemetry/line_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace topk {
namespace {

TEST(LineLimiter, CountsEachLineOnceWithManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kLines = 10000;
  LineLimiter limiter(100);
  std::atomic<int64_t> passed = 0;
  std::atomic<int64_t> told = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int line = 0; line < kLines; ++line) {
        const auto missing = limiter.Pass(5);
        if (!missing.has_value()) continue;
        ++passed;
        told += *missing;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 100);
  EXPECT_EQ(limiter.suppressed(), kThreads * kLines - 100);
  told += limiter.Pass(6).value_or(0);
  EXPECT_EQ(told, limiter.suppressed());
}

}  // namespace
}  // namespace topk
