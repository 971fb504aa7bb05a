// The histograms of the metrics, and what they look like while they fill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <thread>

#include "server/telemetry/answer_counters.h"
#include "server/telemetry/histogram.h"
#include "server/telemetry/metric_registry.h"

namespace topk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint64_t> Cumulative(const Histogram& histogram) {
  std::vector<uint64_t> counts;
  for (const auto& bucket : histogram.Collect().bucket) {
    counts.push_back(bucket.cumulative_count);
  }
  return counts;
}

TEST(MetricHistogram, CountsABoundInItsOwnBucket) {
  Histogram histogram({{1e-6, 1e-3, 1}, 1e-9});
  for (const int64_t value : {0, 1000, 1001, 1000000, 1000000000}) {
    histogram.Observe(value);
  }
  histogram.Observe(1000000001);  // beyond the last
  EXPECT_THAT(Cumulative(histogram), ElementsAre(2, 4, 5));
  const auto collected = histogram.Collect();
  EXPECT_EQ(collected.sample_count, 6u);
  EXPECT_NEAR(collected.sample_sum, 2.001002002, 1e-12);
}

TEST(MetricHistogram, HasRoundBounds) {
  EXPECT_THAT(Buckets::Powers(1, 8, 512).bounds, ElementsAre(1, 8, 64, 512));
  MetricRegistry registry;
  registry.AddHistogram("a", "A", Buckets::Powers(1e-6, 4, 16e-6, 1e-9),
                        {{"stage", "queue"}});
  EXPECT_THAT(prometheus::TextSerializer().Serialize(registry.Collect()),
              HasSubstr("a_bucket{stage=\"queue\",le=\"1e-06\"} 0\n"));
}

TEST(MetricHistogram, IsConsistentDuringUpdates) {
  constexpr int64_t kMax = 1000;
  Histogram histogram(Buckets::Powers(1, 4, 256));
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int64_t value = 0; !stop; ++value) histogram.Observe(value % kMax);
    });
  }
  uint64_t last_count = 0;
  for (int i = 0; i < 2000 || last_count == 0; ++i) {
    const auto now = histogram.Collect();
    uint64_t below = 0;
    for (const auto& bucket : now.bucket) {
      ASSERT_GE(bucket.cumulative_count, below);
      below = bucket.cumulative_count;
    }
    ASSERT_GE(now.sample_count, below);
    ASSERT_GE(now.sample_count, last_count);
    ASSERT_LE(now.sample_sum,
              static_cast<double>(now.sample_count) * (kMax - 1));
    last_count = now.sample_count;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(MetricRegistry, HasEachFamilyOnceAndCollectsValues) {
  MetricRegistry registry;
  double value = 1;
  for (const char* label : {"x", "y"}) {
    registry.AddGauge("a", "A", [&] { return value; }, {{"label", label}});
  }
  registry.AddCounter("b_total", "B", [] { return 7; });
  value = 2;
  EXPECT_EQ(prometheus::TextSerializer().Serialize(registry.Collect()),
            "# HELP a A\n# TYPE a gauge\na{label=\"x\"} 2\na{label=\"y\"} 2\n"
            "# HELP b_total B\n# TYPE b_total counter\nb_total 7\n");
}

TEST(AnswerCounters, AreBoundedForAnyKernelName) {
  prometheus::Registry registry;
  AnswerCounters counters(registry);
  for (int i = 0; i < 1000; ++i) {
    counters.Count("cpu", "made-up-" + std::to_string(i));
    counters.Count("cpu", "scan");
  }
  const auto families = registry.Collect();
  ASSERT_EQ(families.size(), 1u);
  EXPECT_EQ(families[0].metric.size(), AnswerCounters::kMax + 1);
  double all = 0;
  double scan = 0;
  for (const auto& metric : families[0].metric) {
    all += metric.counter.value;
    if (metric.label[1].value == "scan") scan = metric.counter.value;
  }
  EXPECT_EQ(all, 2000);
  EXPECT_EQ(scan, 1000);
}

}  // namespace
}  // namespace topk
