#include "client/bench/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace topk::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Time that passes only where somebody waits or works. For one caller.
class FakeClock final : public LoadClock {
 public:
  nanoseconds Now() override { return now_; }
  void SleepUntil(nanoseconds time) override { now_ = std::max(now_, time); }
  void Work(nanoseconds time) { now_ += time; }

 private:
  nanoseconds now_{1234567};
};

std::vector<RequestTemplate> OneTemplate() {
  std::vector<RequestTemplate> kinds(1);
  kinds[0].name = "a kind";
  return kinds;
}

Answers Right() {
  Answers answers;
  answers.emplace_back(v1::TopKResponse());
  return answers;
}

LoadProfile Counted(int64_t requests, double rate = 0) {
  LoadProfile profile;
  profile.requests = requests;
  profile.rate = rate;
  profile.warmup = 0;
  return profile;
}

LoadOptions Options(const LoadProfile& profile) {
  LoadOptions options;
  options.profile = profile;
  return options;
}

// Runs a load of one kind on one caller.
LoadResult RunOne(FakeClock& clock, const LoadOptions& options,
                  const std::function<Answers()>& send) {
  return RunLoad(options, OneTemplate(),
                 {[&](const RequestTemplate&) { return send(); }}, clock);
}

// The first call takes 30 ms, each later one 1 ms.
LoadResult RunSlowFirst(const LoadProfile& profile) {
  FakeClock clock;
  bool first = true;
  return RunOne(clock, Options(profile), [&] {
    clock.Work(milliseconds(first ? 30 : 1));
    first = false;
    return Right();
  });
}

void ExpectMilliseconds(const Histogram& latency, double share, double expect) {
  EXPECT_NEAR(static_cast<double>(latency.Percentile(share)) / 1e6, expect,
              expect * 0.01)
      << share;
}

TEST(Load, OpenLoopMeasuresLatencyFromTheSchedule) {
  // Due at 0, 10, 20, .. ms; answered at 30, 31, 32, 33, 41, 51, ..
  const LoadResult result = RunSlowFirst(Counted(10, 100));
  const Histogram& latency = result.stats[0].latency;
  EXPECT_EQ(latency.count(), 10);
  ExpectMilliseconds(latency, 0.6, 1);
  ExpectMilliseconds(latency, 0.7, 3);
  ExpectMilliseconds(latency, 0.8, 12);
  ExpectMilliseconds(latency, 0.9, 21);
  ExpectMilliseconds(latency, 1, 30);
  EXPECT_NEAR(result.seconds, 0.091, 1e-9);
  EXPECT_TRUE(result.kept_up);
}

TEST(Load, ClosedLoopMeasuresLatencyFromTheCall) {
  const LoadResult result = RunSlowFirst(Counted(10));
  const Histogram& latency = result.stats[0].latency;
  EXPECT_EQ(latency.count(), 10);
  ExpectMilliseconds(latency, 0.9, 1);
  ExpectMilliseconds(latency, 1, 30);
  EXPECT_NEAR(result.seconds, 0.039, 1e-9);
}

TEST(Load, ReportsThatCallersCannotKeepUp) {
  FakeClock clock;
  LoadProfile profile;
  profile.rate = 1000;
  profile.seconds = 1;
  profile.warmup = 0.5;
  const LoadResult result = RunOne(clock, Options(profile), [&] {
    clock.Work(milliseconds(10));
    return Right();
  });
  EXPECT_EQ(result.stats[0].answered, 100);
  EXPECT_EQ(result.missed, 900);
  EXPECT_FALSE(result.kept_up);
  EXPECT_NEAR(result.lag, 0.891, 1e-9);
  EXPECT_NEAR(result.seconds, 1, 1e-9);
}

// Ends a load of 10 s after 0.4 s; each call takes `call`.
LoadResult RunInterrupted(LoadProfile profile, nanoseconds call) {
  FakeClock clock;
  const nanoseconds end = clock.Now() + milliseconds(400);
  profile.seconds = 10;
  LoadOptions options = Options(profile);
  options.interrupted = [&clock, end] { return clock.Now() >= end; };
  return RunOne(clock, options, [&] {
    clock.Work(call);
    return Right();
  });
}

TEST(Load, CountsFinishedCallsIfInterrupted) {
  LoadProfile profile;
  profile.warmup = 0.1;
  LoadResult result = RunInterrupted(profile, milliseconds(10));
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stats[0].answered, 30);
  EXPECT_NEAR(result.seconds, 0.3, 1e-9);
  // Due at 0, 0.25, 0.5 s: it does not wait for the last one.
  profile.rate = 4;
  result = RunInterrupted(profile, milliseconds(10));
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stats[0].answered, 1);
  EXPECT_EQ(result.missed, 0);
  EXPECT_TRUE(result.kept_up);
  EXPECT_LT(result.seconds, 0.4);
  // Only calls that were due by then and not sent are missed.
  profile.rate = 1000;
  result = RunInterrupted(profile, milliseconds(10));
  EXPECT_EQ(result.stats[0].answered, 30);
  EXPECT_EQ(result.missed, 270);
  // During the warm-up there is nothing to count.
  profile.warmup = 1;
  result = RunInterrupted(profile, milliseconds(10));
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stats[0].answered, 0);
}

TEST(Load, WarmUpIsNotCounted) {
  for (const double rate : {0.0, 50.0}) {
    FakeClock clock;
    int calls = 0;
    LoadProfile profile = Counted(5, rate);
    profile.warmup = 1;
    const LoadResult result = RunOne(clock, Options(profile), [&] {
      ++calls;
      clock.Work(milliseconds(20));
      return Right();
    });
    EXPECT_EQ(calls, 55);
    EXPECT_EQ(result.stats[0].answered, 5);
    EXPECT_NEAR(result.seconds, 0.1, 1e-9);
  }
}

TEST(Load, CountsAtLeastOneCall) {
  FakeClock clock;
  LoadProfile profile;
  profile.seconds = 0.01;
  const LoadResult result = RunOne(clock, Options(profile), [&] {
    clock.Work(std::chrono::seconds(7));
    return Right();
  });
  EXPECT_EQ(result.stats[0].answered, 1);
}

TEST(Load, EndsAtTheFirstFailureOrCountsIt) {
  for (const bool keep_going : {false, true}) {
    FakeClock clock;
    int calls = 0;
    LoadOptions options = Options(Counted(10));
    options.keep_going = keep_going;
    const LoadResult result = RunOne(clock, options, [&] {
      Answers answers = Right();
      if (++calls % 2 == 0) {
        answers[0] =
            ResourceExhausted("", "", "full", std::chrono::milliseconds(7));
      }
      return answers;
    });
    EXPECT_EQ(calls, keep_going ? 10 : 2);
    EXPECT_EQ(result.stats[0].answered, keep_going ? 5 : 1);
    EXPECT_EQ(result.stats[0].latency.count(), keep_going ? 5 : 1);
    EXPECT_EQ(result.stats[0].errors,
              (std::map<std::string, int64_t>{
                  {"RESOURCE_EXHAUSTED", keep_going ? 5 : 1}}));
    EXPECT_EQ(result.stats[0].retry_hints, keep_going ? 5 : 1);
    EXPECT_EQ(result.error.message, "full");
    EXPECT_EQ(result.wrong, "");
  }
}

TEST(Load, AFailureEndsTheTimeOfAnOpenLoop) {
  FakeClock clock;
  int calls = 0;
  LoadProfile profile;
  profile.rate = 10;
  profile.seconds = 10;
  profile.warmup = 0;
  const LoadResult result = RunOne(clock, Options(profile), [&] {
    clock.Work(milliseconds(50));
    Answers answers = Right();
    if (++calls == 5) answers[0] = Status{Code::kUnavailable, "", "", "gone"};
    return answers;
  });
  EXPECT_EQ(result.stats[0].answered, 4);
  EXPECT_NEAR(result.seconds, 0.45, 1e-9);
  EXPECT_EQ(result.missed, 0);
}

TEST(Load, CountsLostCallsApartFromMissingConnections) {
  FakeClock clock;
  // The last one is the server's own.
  const Status failures[] = {
      {Code::kUnavailable, "", "", "Socket closed"},
      {Code::kUnavailable, "", "", "recvmsg:Connection reset by peer"},
      {Code::kUnavailable, "", "",
       "connections to all backends failing; last error: UNKNOWN: Connection "
       "refused"},
      {Code::kUnavailable, "SHUTTING_DOWN", "", "the server is shutting down"}};
  int calls = 0;
  LoadOptions options = Options(Counted(4));
  options.keep_going = true;
  const LoadResult result = RunOne(clock, options, [&] {
    Answers answers;
    answers.emplace_back(failures[calls++]);
    return answers;
  });
  LoadStats total;
  total.Add(result.stats[0]);
  EXPECT_EQ(total.errors, (std::map<std::string, int64_t>{{"UNAVAILABLE", 4}}));
  EXPECT_EQ(total.lost, 2);
  EXPECT_EQ(total.not_connected, 1);
}

TEST(Load, EndsAtAWrongResult) {
  FakeClock clock;
  std::vector<RequestTemplate> kinds = OneTemplate();
  kinds[0].expected.emplace();
  int calls = 0;
  LoadOptions options = Options(Counted(10));
  options.keep_going = true;
  const LoadResult result =
      RunLoad(options, kinds, {[&](const RequestTemplate&) {
                Answers answers = Right();
                if (++calls == 3) answers[0]->mutable_indices()->set_data("x");
                return answers;
              }},
              clock);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(result.wrong, "a kind");
  EXPECT_EQ(result.stats[0].verified, 3);
}

TEST(Load, ABatchHasOneLatencyAndManyRequests) {
  FakeClock clock;
  LoadProfile profile = Counted(20, 100);  // 4 calls, 50 ms apart
  profile.batch = 5;
  const LoadResult result = RunOne(clock, Options(profile), [&] {
    clock.Work(milliseconds(2));
    Answers answers;
    for (int i = 0; i < 5; ++i) {
      answers.emplace_back(v1::TopKResponse());
    }
    return answers;
  });
  EXPECT_EQ(result.stats[0].answered, 20);
  EXPECT_EQ(result.stats[0].latency.count(), 4);
  EXPECT_NEAR(result.seconds, 0.152, 1e-9);
}

TEST(Load, ManyCallersShareTheRequests) {
  std::vector<RequestTemplate> kinds(2);
  kinds[1].weight = 3;
  std::atomic<int> calls = 0;
  std::atomic<int64_t> most = 0;
  LoadOptions options = Options(Counted(8000));
  options.progress = [&](int64_t requests) {
    if (requests == 8000) most = requests;
  };
  const std::vector<Send> callers(8, [&](const RequestTemplate&) {
    ++calls;
    return Right();
  });
  const LoadResult result = RunLoad(options, kinds, callers);
  EXPECT_EQ(calls, 8000);
  EXPECT_EQ(most, 8000);
  EXPECT_EQ(result.stats[0].answered + result.stats[1].answered, 8000);
  EXPECT_NEAR(static_cast<double>(result.stats[1].answered), 6000, 300);
}

TEST(Schedule, DependsOnTheSeedOnly) {
  LoadProfile profile = Counted(1000, 100);
  profile.poisson = true;
  profile.verify = 0.25;
  Schedule one(profile, {1, 1});
  Schedule same(profile, {1, 1});
  profile.seed = 2;
  Schedule other(profile, {1, 1});
  int verified = 0;
  nanoseconds last{0};
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const auto a = one.Next(nanoseconds(0));
    const auto b = same.Next(nanoseconds(0));
    const auto c = other.Next(nanoseconds(0));
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(a->at, b->at);
    EXPECT_EQ(a->kind, b->kind);
    EXPECT_EQ(a->verify, b->verify);
    EXPECT_GE(a->at, last);
    last = a->at;
    differs |= a->at != c->at;
    verified += a->verify;
  }
  EXPECT_FALSE(one.Next(nanoseconds(0)));
  EXPECT_TRUE(differs);
  EXPECT_NEAR(verified, 250, 60);
  // 1000 gaps of 10 ms on average: 10 s, with a deviation of 0.3 s.
  EXPECT_NEAR(std::chrono::duration<double>(last).count(), 10, 1.5);
}

TEST(Schedule, StopsAtOnce) {
  Schedule schedule(Counted(10), {1});
  EXPECT_TRUE(schedule.Next(nanoseconds(0)));
  schedule.Stop(milliseconds(1));
  EXPECT_TRUE(schedule.stopped());
  EXPECT_FALSE(schedule.Next(nanoseconds(0)));
}

}  // namespace
}  // namespace topk::cli
