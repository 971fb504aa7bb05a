// The limits on requests in flight and on their rates, and those of the
// machine: the number of processors according to cgroup files and the affinity
// mask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/common/process_limits.h"
#include "server/admission/admission_controller.h"
#include "server/admission/in_flight_limiter.h"
#include "server/admission/memory_limit.h"
#include "server/admission/rate_limiter.h"
#include "server/telemetry/line_limiter.h"

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr AdmissionLimits kLimits = {
    .bytes = 100, .client_bytes = 60, .calls = 3, .client_calls = 2};

void ExpectLater(const Status& status, const std::string& reason,
                 const std::string& whose) {
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, reason);
  EXPECT_EQ(status.field, whose);
  EXPECT_GE(status.retry_after, milliseconds(16));
  EXPECT_LE(status.retry_after, milliseconds(12000));
}

TEST(InFlightLimiter, CountsBytes) {
  InFlightLimiter limiter(kLimits);
  InFlightLimiter::Slot a, b;
  ASSERT_TRUE(limiter.Admit("x", a).ok());
  ASSERT_TRUE(limiter.Admit("y", b).ok());
  std::optional<InFlightLimiter::Charge> of_a(a);
  InFlightLimiter::Charge of_b(b);
  EXPECT_TRUE(of_a->Add(40).ok());
  EXPECT_TRUE(of_a->Add(20).ok());
  InFlightLimiter::Charge more(a);
  ExpectLater(more.Add(1), "TOO_MANY_BYTES_OF_CLIENT", "client:x");
  ExpectLater(more.Add(60), "TOO_MANY_BYTES_OF_CLIENT", "client:x");
  // A retry could not succeed either.
  for (const int64_t bytes : {int64_t{61}, INT64_MAX}) {
    const Status status = more.Add(bytes);
    EXPECT_EQ(status.reason, "REQUEST_TOO_LARGE");
    EXPECT_EQ(status.retry_after, milliseconds(0));
  }
  EXPECT_TRUE(of_b.Add(40).ok());
  const Status full = of_b.Add(1);
  ExpectLater(full, "TOO_MANY_BYTES", "server");
  EXPECT_THAT(full.message, HasSubstr("--max-inflight-bytes = 100"));
  EXPECT_EQ(limiter.bytes(), 100);
  of_a->Shrink(40);
  EXPECT_TRUE(of_b.Add(20).ok());
  of_a.reset();
  EXPECT_EQ(limiter.bytes(), 60);
  EXPECT_TRUE(more.Add(40).ok());
}

// A rejected request never uses a part of the limits, not even temporarily.
TEST(InFlightLimiter, RejectedClientsDoNotCountForOthers) {
  InFlightLimiter limiter(kLimits);
  InFlightLimiter::Slot a, b;
  ASSERT_TRUE(limiter.Admit("x", a).ok());
  ASSERT_TRUE(limiter.Admit("x", b).ok());
  InFlightLimiter::Charge held(a);
  ASSERT_TRUE(held.Add(50).ok());
  std::atomic<bool> ended = false;
  std::thread rejected([&] {
    for (int i = 0; i < 200'000; ++i) {
      InFlightLimiter::Slot call;
      InFlightLimiter::Charge bytes(b);
      if (limiter.Admit("x", call).ok() || bytes.Add(50).ok()) break;
    }
    ended = true;
  });
  int64_t most_calls = 0;
  int64_t most_bytes = 0;
  while (!ended) {
    most_calls = std::max(most_calls, limiter.calls());
    most_bytes = std::max(most_bytes, limiter.bytes());
  }
  rejected.join();
  EXPECT_EQ(most_calls, 2);
  EXPECT_EQ(most_bytes, 50);
}

// The totals grow by 1000 per second.
TEST(InFlightLimiter, CountsNothingAfterAllReleases) {
  InFlightLimiter limiter(
      {.bytes = 1000, .client_bytes = 300, .calls = 20, .client_calls = 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        InFlightLimiter::Slot slot;
        const std::string client(1, static_cast<char>('a' + (t + i) % 3));
        if (!limiter.Admit(client, slot).ok()) continue;
        InFlightLimiter::Charge charge(slot);
        if (charge.Add(i % 400).ok() && i % 2 == 0) {
          charge.Shrink(i % 400 / 2);
        }
        EXPECT_LE(limiter.bytes(), 1000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(limiter.bytes(), 0);
  EXPECT_EQ(limiter.calls(), 0);
}

TEST(RetryDelayEstimator, SpreadsRetryDelays) {
  RetryDelayEstimator queue;
  const RetryDelayEstimator::Time start = std::chrono::steady_clock::now();
  EXPECT_LE(queue.AddRejected(100, 0, start),
            milliseconds(120));  // rate unknown
  const milliseconds first = queue.AddRejected(500, 1000, start + seconds(1));
  EXPECT_GE(first, milliseconds(400));
  EXPECT_LE(first, milliseconds(600));
  const milliseconds second = queue.AddRejected(1000, 1000, start + seconds(1));
  EXPECT_GE(second, milliseconds(1200));
  EXPECT_LE(second, milliseconds(1800));
  // Delays that have passed no longer count.
  const milliseconds third = queue.AddRejected(500, 3000, start + seconds(3));
  EXPECT_GE(third, milliseconds(400));
  EXPECT_LE(third, milliseconds(600));
  // After a long pause, the rate is unknown again.
  EXPECT_LE(queue.AddRejected(500, 3000, start + seconds(20)),
            milliseconds(120));
}

TEST(RetryDelayEstimator, IsBounded) {
  RetryDelayEstimator queue;
  const RetryDelayEstimator::Time start = std::chrono::steady_clock::now();
  (void)queue.AddRejected(1, 0, start);
  EXPECT_LE(queue.AddRejected(int64_t{1} << 50, 1, start + seconds(1)),
            milliseconds(12000));
  EXPECT_GE(queue.AddRejected(1, int64_t{1} << 60, start + seconds(2)),
            milliseconds(16));
}

TEST(DefaultMaxCalls, GrowsWithMemory) {
  EXPECT_EQ(DefaultMaxCalls(1), 2);
  EXPECT_EQ(DefaultMaxCalls(256 << 20), 512);
  EXPECT_EQ(DefaultMaxCalls(int64_t{64} << 30), 4096);
}

TEST(DefaultMemory, LeavesTheReservedMemoryFree) {
  for (int64_t memory = kLeastMemory; memory < int64_t{1} << 40; memory *= 2) {
    EXPECT_LE(DefaultInflightBytes(memory) + DefaultReceiveMemory(memory),
              memory - kReservedMemory)
        << memory;
    // The buffers of 512 connections take at most 1/8 of the memory.
    if (memory >= 256 << 20 && memory < kSmallMemory) {
      EXPECT_GT(SocketBufferBytes(memory), 0);
      EXPECT_LE(512 * int64_t{SocketBufferBytes(memory)}, memory / 8) << memory;
    }
  }
  EXPECT_EQ(DefaultInflightBytes(1), 12 << 20);
  EXPECT_EQ(DefaultReceiveMemory(1), 16 << 20);
  EXPECT_EQ(SocketBufferBytes(kSmallMemory), 0);
}

TEST(AdmissionController, RejectsCallsOnceClosed) {
  spdlog::logger log("test");
  const std::unique_ptr<Authenticator> anyone =
      *Authenticator::Start({}, nullptr, log);
  AdmissionController admission(*anyone, {}, {});
  admission.Close({});
  const grpc::ServerContext context;
  CallInfo call = {.context = &context};
  const Status status = admission.AdmitCall(call);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.reason, "SHUTTING_DOWN");
  EXPECT_EQ(admission.in_flight().calls(), 0);
}

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
