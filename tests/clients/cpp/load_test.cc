#include "client/bench/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topk::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A clock for one caller. Time passes only while the caller waits or works.
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

LoadResult RunOne(FakeClock& clock, const LoadOptions& options,
                  const std::function<Answers()>& send) {
  return RunLoad(options, OneTemplate(),
                 {[&](const RequestTemplate&) { return send(); }}, clock);
}

constexpr double kAny = -1;

// Runs a load with one caller and checks its result. The calls take `durations`
// in ms; further calls take as long as the last one. The load is interrupted
// after `interrupt` ms, and every `fails`-th call fails. 0 means never.
LoadResult Check(const char* name, const LoadOptions& load,
                 const std::vector<int>& durations, size_t calls,
                 int64_t answered, double seconds, int64_t missed = 0,
                 int interrupt = 0, size_t fails = 0) {
  SCOPED_TRACE(name);
  FakeClock clock;
  const nanoseconds end = clock.Now() + milliseconds(interrupt);
  LoadOptions options = load;
  options.interrupted = [&] { return interrupt > 0 && clock.Now() >= end; };
  size_t made = 0;
  int64_t failed = 0;
  LoadResult result = RunOne(clock, options, [&] {
    clock.Work(milliseconds(durations[std::min(made, durations.size() - 1)]));
    Answers answers(static_cast<size_t>(load.profile.batch),
                    Response(v1::TopKResponse()));
    if (++made % std::max(fails, size_t{1}) == 0 && fails > 0) {
      answers[0] = ResourceExhausted("", "", "full", milliseconds(7));
      ++failed;
    }
    return answers;
  });
  const LoadStats& stats = result.stats[0];
  EXPECT_EQ(made, calls);
  EXPECT_EQ(stats.answered, answered);
  EXPECT_EQ(stats.latency.count(), answered / load.profile.batch);
  if (seconds != kAny) {
    EXPECT_NEAR(result.seconds, seconds, 1e-9);
  }
  EXPECT_EQ(result.missed, missed);
  EXPECT_EQ(result.kept_up, missed == 0);
  EXPECT_EQ(result.interrupted, interrupt > 0);
  EXPECT_EQ(stats.retry_hints, failed);
  std::map<std::string, int64_t> errors;
  if (failed > 0) errors["RESOURCE_EXHAUSTED"] = failed;
  EXPECT_EQ(stats.errors, errors);
  EXPECT_EQ(result.error.message, failed > 0 ? "full" : "");
  EXPECT_EQ(result.wrong, "");
  return result;
}

void ExpectMilliseconds(const LoadResult& result, double share, double expect) {
  const Histogram& latency = result.stats[0].latency;
  EXPECT_NEAR(static_cast<double>(latency.Percentile(share)) / 1e6, expect,
              expect * 0.01)
      << share;
}

LoadOptions Counted(int64_t requests, double rate = 0, double warmup = 0) {
  LoadOptions options;
  options.profile.requests = requests;
  options.profile.rate = rate;
  options.profile.warmup = warmup;
  return options;
}

LoadOptions Timed(double seconds, double rate, double warmup) {
  LoadOptions options = Counted(0, rate, warmup);
  options.profile.seconds = seconds;
  return options;
}

TEST(Load, MeasuresLatencies) {
  // Due at 0, 10, 20, ... ms; finished at 30, 31, 32, 33, 41, 51, ... ms.
  const LoadResult open =
      Check("from the schedule", Counted(10, 100), {30, 1}, 10, 10, 0.091);
  for (const auto& [share, expected] :
       {std::pair(0.6, 1), {0.7, 3}, {0.8, 12}, {0.9, 21}, {1, 30}}) {
    ExpectMilliseconds(open, share, expected);
  }
  const LoadResult closed =
      Check("from the call", Counted(10), {30, 1}, 10, 10, 0.039);
  ExpectMilliseconds(closed, 0.9, 1);
  ExpectMilliseconds(closed, 1, 30);
  LoadOptions batches = Counted(20, 100);
  batches.profile.batch = 5;
  Check("one for each batch", batches, {2}, 4, 20, 0.152);
}

TEST(Load, ReportsThatCallersCannotKeepUp) {
  const LoadResult result =
      Check("", Timed(1, 1000, 0.5), {10}, 150, 100, 1, 900);
  EXPECT_NEAR(result.lag, 0.891, 1e-9);
}

TEST(Load, CountsFinishedCallsIfInterrupted) {
  Check("closed loop", Timed(10, 0, 0.1), {10}, 40, 30, 0.3, 0, 400);
  // Due at 0, 0.25 and 0.5 s. The load ends before the last call.
  Check("in a pause", Timed(10, 4, 0.1), {10}, 2, 1, kAny, 0, 400);
  // Only calls that were due before the interrupt and not sent are missed.
  Check("busy", Timed(10, 1000, 0.1), {10}, 40, 30, 0.3, 270, 400);
  Check("in the warm-up", Timed(10, 1000, 1), {10}, 40, 0, kAny, 360, 400);
}

TEST(Load, WarmUpIsNotCounted) {
  Check("closed loop", Counted(5, 0, 1), {20}, 55, 5, 0.1);
  Check("open loop", Counted(5, 50, 1), {20}, 55, 5, 0.1);
  Check("at least one call is counted", Timed(0.01, 0, 1), {7000}, 2, 1, 13);
}

TEST(Load, EndsAtTheFirstFailureOrCountsIt) {
  LoadOptions load = Counted(10);
  Check("ends", load, {0}, 2, 1, 0, 0, 0, 2);
  load.keep_going = true;
  Check("keeps going", load, {0}, 10, 5, 0, 0, 0, 2);
  Check("open loop", Timed(10, 10, 0), {50}, 5, 4, 0.45, 0, 0, 5);
  Check("until the end of the time", Timed(1, 4, 0), {10}, 4, 4, 1);
}

TEST(Load, CountsLostCallsApartFromMissingConnections) {
  FakeClock clock;
  // A server sent the last failure. gRPC itself reports the others.
  const Status failures[] = {
      {Code::kUnavailable, "", "", "Socket closed"},
      {Code::kUnavailable, "", "", "recvmsg:Connection reset by peer"},
      {Code::kUnavailable, "", "",
       "connections to all backends failing; last error: UNKNOWN: Connection "
       "refused"},
      {Code::kUnavailable, "SHUTTING_DOWN", "", "the server is shutting down"}};
  int calls = 0;
  LoadOptions load = Counted(4);
  load.keep_going = true;
  const LoadResult result =
      RunOne(clock, load, [&] { return Answers(1, failures[calls++]); });
  LoadStats total;
  total.Add(result.stats[0]);
  EXPECT_EQ(total.errors, (std::map<std::string, int64_t>{{"UNAVAILABLE", 4}}));
  EXPECT_EQ(total.lost, 2);
  EXPECT_EQ(total.not_connected, 1);
  EXPECT_EQ(total.retry_hints, 0);
  EXPECT_EQ(result.error.message, failures[0].message);
}

TEST(Load, ManyCallersShareTheRequests) {
  std::vector<RequestTemplate> kinds(2);
  kinds[1].weight = 3;
  std::atomic<int> calls = 0;
  std::atomic<int64_t> most = 0;
  LoadOptions options = Counted(8000);
  options.progress = [&](int64_t requests) {
    if (requests == 8000) most = requests;
  };
  const std::vector<Send> callers(8, [&](const RequestTemplate&) {
    ++calls;
    return Answers(1, Response(v1::TopKResponse()));
  });
  const LoadResult result = RunLoad(options, kinds, callers);
  EXPECT_EQ(calls, 8000);
  EXPECT_EQ(most, 8000);
  EXPECT_EQ(result.stats[0].answered + result.stats[1].answered, 8000);
  EXPECT_NEAR(static_cast<double>(result.stats[1].answered), 6000, 300);
}

TEST(Schedule, DependsOnTheSeedOnly) {
  LoadProfile profile = Counted(1000, 100).profile;
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
  // 1000 gaps of 10 ms on average: 10 s, with a standard deviation of 0.3 s.
  EXPECT_NEAR(std::chrono::duration<double>(last).count(), 10, 1.5);
}

}  // namespace
}  // namespace topk::cli
