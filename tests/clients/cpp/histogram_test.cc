#include "client/bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace topk::cli {
namespace {

// Returns values of every magnitude that a latency may have.
std::vector<int64_t> Values(size_t count) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> value(13, 4);
  std::vector<int64_t> values(count);
  for (int64_t& v : values) {
    v = static_cast<int64_t>(std::min(value(random), 1e14));
  }
  return values;
}

TEST(Histogram, PercentilesAreNearlyExact) {
  std::vector<int64_t> values = Values(20000);
  Histogram histogram;
  double sum = 0;
  for (const int64_t value : values) {
    histogram.Record(value);
    sum += static_cast<double>(value);
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999}) {
    const auto rank = static_cast<size_t>(
        std::ceil(share * static_cast<double>(values.size())));
    const auto exact =
        static_cast<double>(values[std::max<size_t>(rank, 1) - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(share)), exact,
                exact * 0.008)
        << share;
  }
  EXPECT_EQ(histogram.Percentile(1), values.back());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.count(), 20000);
  EXPECT_DOUBLE_EQ(histogram.mean(), sum / 20000);
}

TEST(Histogram, RecordsExtremes) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.5), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
  histogram.Record(-5);
  EXPECT_EQ(histogram.Percentile(1), 0);
  histogram.Record(INT64_MAX);
  EXPECT_EQ(histogram.max(), INT64_MAX);
  EXPECT_EQ(histogram.Percentile(1), INT64_MAX);
  EXPECT_EQ(histogram.Percentile(0), 0);
}

}  // namespace
}  // namespace topk::cli
