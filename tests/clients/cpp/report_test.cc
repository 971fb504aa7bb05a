#include "client/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace topk::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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

TEST(Report, ExceededLimitsAreNamedWithTheirValues) {
  const LoadStats stats = Stats();
  BenchFlags flags;
  EXPECT_THAT(ExceededLimits(flags, stats), IsEmpty());
  flags.max_p99 = 0.1;
  flags.max_errors = 3;
  EXPECT_THAT(ExceededLimits(flags, stats), IsEmpty());
  flags.max_p99 = 0.098;
  EXPECT_THAT(ExceededLimits(flags, stats),
              ElementsAre(AllOf(StartsWith("--max-p99: "), HasSubstr(", 9"),
                                HasSubstr("exceeds the limit of 98.0ms"))));
  flags.max_p99.reset();
  flags.max_errors = 2;
  EXPECT_THAT(
      ExceededLimits(flags, stats),
      ElementsAre("--max-errors: 3 requests failed, more than the limit of 2"));
  flags.max_p99 = 0.001;
  EXPECT_EQ(ExceededLimits(flags, stats).size(), 2);
}

TEST(Report, RowsDescribeTheirPartOfTheLoad) {
  const LoadStats stats = Stats();
  const ProgressRow row{12.04, 0.5, stats};
  EXPECT_THAT(ToText(row), StartsWith("12.0 s: 100 requests, 200/s, p50 "));
  EXPECT_THAT(ToText(row), HasSubstr("ms, 3 errors"));
  std::vector<double> cells;
  std::istringstream csv(ToCsv(row));
  for (std::string cell; std::getline(csv, cell, ',');) {
    cells.push_back(std::stod(cell));
  }
  using ::testing::DoubleNear;
  EXPECT_THAT(cells, ElementsAre(12.04, 100, 200, DoubleNear(50'000, 400),
                                 DoubleNear(99'000, 800), 3));
}

TEST(Report, ContainsTheServersTimeAndRetriedRequests) {
  const BenchFlags flags;
  RequestTemplate request;
  request.name = "8x1000 f32 k 5";
  LoadResult result;
  result.stats = Stats();
  result.seconds = 2;
  const auto json = ToJson({flags, request, result});
  EXPECT_DOUBLE_EQ(json["compute_mean_us"].get<double>(), 50.5);
  EXPECT_NEAR(json["compute_p50_us"].get<double>(), 50, 0.4);
  EXPECT_NEAR(json["compute_p99_us"].get<double>(), 99, 0.8);
  EXPECT_EQ(json["retried"], 4);
  std::ostringstream text;
  PrintText({flags, request, result}, text);
  EXPECT_THAT(text.str(), StartsWith("8x1000 f32 k 5, unary, closed loop,"));
  EXPECT_THAT(text.str(), HasSubstr("\n     100 50.5us "));
  EXPECT_THAT(text.str(), HasSubstr("4 requests needed several attempts\n"));
}

}  // namespace
}  // namespace topk::cli
