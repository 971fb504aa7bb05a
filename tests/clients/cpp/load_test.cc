// The load of `topk bench`, and its report.
#include "client/bench/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/bench/report.h"

namespace topk::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kAny = -1;

// Runs a load with one caller and checks its result. The calls take `durations`
// in ms; further calls take as long as the last one. The load is interrupted
// after `interrupt` ms, and every `fails`-th call fails. 0 means never.
LoadResult Check(const char* name, const LoadProfile& profile,
                 const std::vector<int>& durations, size_t calls,
                 int64_t answered, double seconds, int64_t missed = 0,
                 int interrupt = 0, size_t fails = 0, bool keep_going = false) {
  SCOPED_TRACE(name);
  size_t made = 0;
  int64_t failed = 0;
  Load load(profile, keep_going);
  const nanoseconds end =
      interrupt > 0 ? milliseconds(interrupt) : nanoseconds::max();
  nanoseconds now{0};
  while (true) {
    if (now >= end) load.Interrupt(now);
    const auto call = load.Next(now);
    if (!call) break;
    if (call->at > std::max(now, end)) {
      load.Interrupt(end);
      break;
    }
    const nanoseconds sent = std::max(now, call->at);
    now = sent + milliseconds(durations[std::min(made, durations.size() - 1)]);
    Outcome outcome;
    outcome.compute.assign(static_cast<size_t>(profile.batch), 5);
    if (++made % std::max(fails, size_t{1}) == 0 && fails > 0) {
      outcome.compute.pop_back();
      outcome.errors = {ResourceExhausted("", "", "full", milliseconds(7))};
      ++failed;
    }
    load.Record(*call, sent, now, outcome);
  }
  LoadResult result = load.Result();
  const LoadStats& stats = result.stats;
  EXPECT_EQ(made, calls);
  EXPECT_EQ(stats.answered(), answered);
  EXPECT_EQ(stats.latency.count(), answered / profile.batch);
  EXPECT_EQ(stats.verified, answered);
  EXPECT_EQ(stats.compute.max(), answered > 0 ? 5 : 0);
  if (seconds != kAny) {
    EXPECT_NEAR(result.seconds, seconds, 1e-9);
  }
  EXPECT_EQ(result.missed, missed);
  EXPECT_EQ(result.kept_up, missed == 0);
  EXPECT_EQ(result.interrupted, interrupt > 0);
  EXPECT_EQ(stats.retry_hints, failed);
  EXPECT_EQ(stats.failed(), failed);
  std::map<std::string, int64_t> errors;
  if (failed > 0) errors["RESOURCE_EXHAUSTED"] = failed;
  EXPECT_EQ(stats.errors, errors);
  EXPECT_EQ(result.error.message, failed > 0 ? "full" : "");
  EXPECT_FALSE(result.wrong);
  return result;
}

void ExpectMilliseconds(const LoadResult& result, double share, double expect) {
  const Histogram& latency = result.stats.latency;
  EXPECT_NEAR(static_cast<double>(latency.Percentile(share)) / 1e6, expect,
              expect * 0.01)
      << share;
}

LoadProfile Counted(int64_t requests, double rate = 0, double warmup = 0) {
  LoadProfile profile;
  profile.requests = requests;
  profile.rate = rate;
  profile.warmup = warmup;
  return profile;
}

LoadProfile Timed(double seconds, double rate, double warmup) {
  LoadProfile profile = Counted(0, rate, warmup);
  profile.seconds = seconds;
  return profile;
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
  LoadProfile batches = Counted(20, 100);
  batches.batch = 5;
  Check("one for each batch", batches, {2}, 4, 20, 0.152);
}

TEST(Load, ReportsThatCallersCannotKeepUp) {
  const LoadResult result =
      Check("", Timed(1, 1000, 0.5), {10}, 150, 100, 1, 900);
  EXPECT_NEAR(result.lag, 0.9, 1e-9);
  // After 20 calls in time, the server stalls until the end.
  std::vector<int> durations(20, 1);
  durations.push_back(2000);
  Check("stalled", Timed(1, 100, 0), durations, 21, 21, kAny, 79);
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
  Check("ends", Counted(10), {0}, 2, 1, 0, 0, 0, 2);
  Check("keeps going", Counted(10), {0}, 10, 5, 0, 0, 0, 2, true);
  Check("open loop", Timed(10, 10, 0), {50}, 5, 4, 0.45, 0, 0, 5);
  Check("until the end of the time", Timed(1, 4, 0), {10}, 4, 4, 1);
  Check("rounding errors", Timed(3, 10, 1), {1}, 40, 30, 3);
}

TEST(Load, ReportsRecentCallsOnce) {
  Load load(Timed(1, 0, 1), /*keep_going=*/true);
  const auto record = [&](int at, int took) {
    const auto call = load.Next(milliseconds(at));
    ASSERT_TRUE(call);
    load.Record(*call, milliseconds(at), milliseconds(at + took),
                {.compute = {1}});
  };
  for (int i = 1; i <= 100; ++i) record(i, i);  // the warm-up counts too
  const LoadStats first = load.TakeRecent();
  EXPECT_EQ(first.answered(), 100);
  EXPECT_EQ(first.latency.max(), nanoseconds(milliseconds(100)).count());
  record(1500, 7);
  const LoadStats second = load.TakeRecent();
  EXPECT_EQ(second.answered(), 1);
  EXPECT_EQ(second.latency.max(), nanoseconds(milliseconds(7)).count());
  EXPECT_EQ(load.TakeRecent().answered(), 0);
  EXPECT_EQ(load.Result().stats.answered(), 1);
}

TEST(Load, CallsDependOnTheSeedOnly) {
  LoadProfile profile = Counted(1000, 100);
  profile.poisson = true;
  profile.verify = 0.25;
  const auto calls = [&](uint64_t seed) {
    profile.seed = seed;
    Load load(profile, /*keep_going=*/false);
    std::vector<std::pair<nanoseconds, bool>> times;
    while (const auto call = load.Next(nanoseconds(0))) {
      times.emplace_back(call->at, call->verify);
    }
    return times;
  };
  const auto one = calls(1);
  ASSERT_EQ(one.size(), 1000u);
  EXPECT_EQ(one, calls(1));
  EXPECT_NE(one.back().first, calls(2).back().first);
  EXPECT_TRUE(std::ranges::is_sorted(one));
  const auto verified =
      std::ranges::count(one, true, &std::pair<nanoseconds, bool>::second);
  EXPECT_GT(verified, 190);
  EXPECT_LT(verified, 310);
  // 1000 gaps of 10 ms on average: 10 s, with a standard deviation of 0.3 s.
  EXPECT_NEAR(std::chrono::duration<double>(one.back().first).count(), 10, 1.5);
}

// Returns stats with latencies of 1 to 100 ms, compute times of 1 to 100 us and
// 3 failures.
LoadStats Stats() {
  LoadStats stats;
  for (int i = 1; i <= 100; ++i) {
    stats.latency.Record(i * 1'000'000);
    stats.compute.Record(i * 1000);
  }
  stats.errors = {{"CANCELLED", 1}, {"UNAVAILABLE", 2}};
  stats.retried = 4;
  return stats;
}

TEST(Report, RowsDescribeTheirPartOfTheLoad) {
  std::vector<double> cells;
  std::istringstream csv(CsvRow(12.04, 0.5, Stats()));
  for (std::string cell; std::getline(csv, cell, ',');) {
    cells.push_back(std::stod(cell));
  }
  using ::testing::DoubleNear;
  EXPECT_THAT(cells, ElementsAre(12.04, 100, 200, DoubleNear(50'000, 400),
                                 DoubleNear(99'000, 800), 3));
}

TEST(Report, ContainsTheServersTimeAndRetriedRequests) {
  LoadResult result;
  result.stats = Stats();
  result.seconds = 2;
  const auto json = ToJson(result);
  EXPECT_DOUBLE_EQ(json["compute_mean_us"].get<double>(), 50.5);
  EXPECT_NEAR(json["compute_p50_us"].get<double>(), 50, 0.4);
  EXPECT_NEAR(json["compute_p99_us"].get<double>(), 99, 0.8);
  EXPECT_EQ(json["retried"], 4);
  std::ostringstream text;
  PrintText(result, text);
  EXPECT_THAT(text.str(),
              StartsWith("100 requests in 2.00 s: 50.00 requests/s"));
  EXPECT_THAT(text.str(), HasSubstr("\n     100 50.5us "));
  EXPECT_THAT(text.str(), HasSubstr("4 requests needed several attempts\n"));
}

TEST(Histogram, PercentilesAreNearlyExact) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> value(13, 4);
  std::vector<double> values(20000);
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.5), 0);
  EXPECT_EQ(histogram.mean(), 0);
  double sum = 0;
  for (double& v : values) {
    v = std::floor(std::min(value(random), 1e14));
    histogram.Record(static_cast<int64_t>(v));
    sum += v;
  }
  std::ranges::sort(values);
  for (const double share : {0.0001, 0.1, 0.5, 0.9, 0.99, 0.9999}) {
    const double exact =
        values[static_cast<size_t>(std::ceil(share * 20000)) - 1];
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(share)), exact,
                exact * 0.008)
        << share;
  }
  EXPECT_EQ(histogram.Percentile(1), values.back());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.count(), 20000);
  EXPECT_DOUBLE_EQ(histogram.mean(), sum / 20000);
}

}  // namespace
}  // namespace topk::cli
