#include "client/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace topk::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
