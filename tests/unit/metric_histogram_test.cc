// The histograms of the metrics, and what they look like while they fill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

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

TraceContext TraceNumbered(uint64_t high, uint64_t low, uint64_t span) {
  TraceContext trace;
  trace.trace_high = high;
  trace.trace_low = low;
  trace.span = span;
  return trace;
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

TEST(MetricHistogram, KeepsTheLastExemplarOfEachBucket) {
  Histogram histogram({{1e-6, 4e-6}, 1e-9});
  TraceContext trace = TraceNumbered(1, 2, 3);
  const auto before = std::chrono::system_clock::now();
  histogram.Observe(500);
  histogram.Observe(900, &trace);
  histogram.Observe(4000, &trace);
  trace.span = 4;
  histogram.Observe(800, &trace);
  histogram.Observe(700);
  const BucketExemplars exemplars = histogram.CollectExemplars();
  ASSERT_EQ(exemplars.size(), 3u);
  ASSERT_TRUE(exemplars[0].has_value() && exemplars[1].has_value());
  EXPECT_FALSE(exemplars[2].has_value()) << "not observed";
  EXPECT_EQ(exemplars[0]->trace_high, 1u);
  EXPECT_EQ(exemplars[0]->trace_low, 2u);
  EXPECT_EQ(exemplars[0]->span, 4u);
  EXPECT_NEAR(exemplars[0]->value, 800e-9, 1e-12);
  EXPECT_GE(exemplars[0]->time, exemplars[1]->time);
  EXPECT_GE(exemplars[1]->time, before);
  EXPECT_EQ(exemplars[1]->span, 3u);
  EXPECT_EQ(exemplars[1]->value, 4e-6) << "not 4000 * 1e-9, which exceeds it";
  EXPECT_EQ(histogram.Collect().sample_count, 5u);
}

TEST(MetricHistogram, CountsTheObservationOfEachExemplar) {
  Histogram histogram({{10}, 1});
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 3; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t value = 1; !stop; ++value) {
        const TraceContext trace = TraceNumbered(i, i, i);
        histogram.Observe(static_cast<int64_t>(value % 20),
                          value % 3 == 0 ? &trace : nullptr);
      }
    });
  }
  for (int seen = 0; seen < 2000;) {
    const BucketExemplars exemplars = histogram.CollectExemplars();
    const auto now = histogram.Collect();
    if (exemplars[0].has_value()) {
      ++seen;
      ASSERT_GT(now.bucket[0].cumulative_count, 0u);
      ASSERT_LE(exemplars[0]->value, 10);
      ASSERT_EQ(exemplars[0]->trace_high, exemplars[0]->trace_low);
      ASSERT_EQ(exemplars[0]->trace_high, exemplars[0]->span);
    }
    if (exemplars[1].has_value()) {
      ASSERT_GT(now.sample_count, now.bucket[0].cumulative_count);
      ASSERT_GT(exemplars[1]->value, 10);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(MetricRegistry, HasTheExemplarsOfEachSeries) {
  MetricRegistry registry;
  registry.AddHistogram("a", "A", {{1}, 1}, {{"x", "1"}});
  Histogram& second = registry.AddHistogram("a", "A", {{1}, 1}, {{"x", "2"}});
  registry.AddGauge("b", "B", [] { return 1; });
  const TraceContext trace = TraceNumbered(1, 2, 3);
  second.Observe(5, &trace);
  const Exemplars exemplars = registry.CollectExemplars();
  ASSERT_EQ(exemplars.size(), 1u);
  const auto& series = exemplars.at("a");
  ASSERT_EQ(series.size(), 2u);
  EXPECT_FALSE(series[0][1].has_value());
  ASSERT_TRUE(series[1][1].has_value());
  EXPECT_EQ(series[1][1]->value, 5);
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
