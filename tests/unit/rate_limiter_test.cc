#include "server/admission/rate_limiter.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/text.h"
#include "server/telemetry/line_limiter.h"

namespace topk {
namespace {

using std::chrono::milliseconds;

// A limiter whose clock advances only when the test says so.
class Limited : public ::testing::Test {
 protected:
  RateLimiter Make(RateLimiter::Rates rates, size_t max_callers = 100) {
    return RateLimiter(rates, max_callers, [this] { return now_; });
  }
  void Pass(milliseconds time) { now_ += time; }

  RateLimiter::Time now_;
};

using RateLimiterTest = Limited;

TEST_F(RateLimiterTest, AllowsBurstsOfOneSecond) {
  RateLimiter limiter = Make({.requests = 10});
  EXPECT_FALSE(limiter.off());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limiter.Take("a", 1, 5)) << i;
  EXPECT_EQ(limiter.Take("a", 1, 5), milliseconds(100));
  Pass(milliseconds(40));
  EXPECT_EQ(limiter.Take("a", 1, 5), milliseconds(60));
  Pass(milliseconds(60));
  EXPECT_FALSE(limiter.Take("a", 1, 5));
  EXPECT_TRUE(limiter.Take("a", 1, 5));
  Pass(std::chrono::hours(1));  // the burst does not grow
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limiter.Take("a", 1, 5)) << i;
  EXPECT_TRUE(limiter.Take("a", 1, 5));
}

TEST_F(RateLimiterTest, RetryDelaysAreBounded) {
  for (const double rate : {1e-300, 4.9e-324, 1e-9}) {
    RateLimiter limiter = Make({.requests = rate});
    EXPECT_FALSE(limiter.Take("a", 1, 1));
    EXPECT_EQ(limiter.Take("a", 1, 1), std::chrono::hours(24 * 365)) << rate;
  }
  RateLimiter limiter = Make({.bytes = 1});
  limiter.DebitUnchecked("a", std::numeric_limits<int64_t>::max());
  EXPECT_EQ(limiter.Take("a", 1, 1), std::chrono::hours(24 * 365));
}

TEST_F(RateLimiterTest, RejectedRequestsCostNothing) {
  RateLimiter limiter = Make({.requests = 2, .bytes = 100});
  EXPECT_FALSE(limiter.Take("a", 1, 100));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(limiter.Take("a", 1, 50), milliseconds(500));
  }
  Pass(milliseconds(500));
  EXPECT_FALSE(limiter.Take("a", 1, 50));
}

TEST_F(RateLimiterTest, LargeRequestsDelayTheNextOnes) {
  RateLimiter limiter = Make({.bytes = 1000});
  EXPECT_FALSE(limiter.Take("a", 1, 10'000));
  // The debt of 9000 bytes takes 9 s. The same request would wait 1 s longer.
  EXPECT_EQ(limiter.Take("a", 1, 0), milliseconds(9000));
  EXPECT_EQ(limiter.Take("a", 1, 10'000), milliseconds(10'000));
  Pass(milliseconds(9000));
  EXPECT_FALSE(limiter.Take("a", 1, 0));
  EXPECT_EQ(limiter.Take("a", 1, 1), milliseconds(1));
}

TEST_F(RateLimiterTest, EvictsTheLeastRecentlyUsedCaller) {
  RateLimiter limiter = Make({.requests = 0.001}, 10);
  for (int i = 0; i < 1000; ++i) {
    const std::string other = StrCat("other", i);
    EXPECT_FALSE(limiter.Take(other, 1, 0)) << i;
    // This caller is always recently used, so it is never evicted.
    EXPECT_EQ(limiter.Take("a", 1, 0).has_value(), i > 0) << i;
  }
  EXPECT_TRUE(limiter.Take("other991", 1, 0)) << "remembered";
  EXPECT_FALSE(limiter.Take("other990", 1, 0)) << "forgotten";
}

TEST(LineLimiter, ReportsEachSuppressedLineOnce) {
  LineLimiter limiter(2);
  EXPECT_EQ(limiter.Pass(5), 0);
  EXPECT_EQ(limiter.Pass(5), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.Pass(5), std::nullopt);
  EXPECT_EQ(limiter.suppressed(), 3);
  EXPECT_EQ(limiter.Pass(6), 3);
  EXPECT_EQ(limiter.Pass(6), 0);
  EXPECT_EQ(limiter.Pass(6), std::nullopt);
  EXPECT_EQ(limiter.suppressed(), 4);
}

}  // namespace
}  // namespace topk
