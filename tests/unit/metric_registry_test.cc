// The registry of the metrics, and the counters of answers.
#include "server/telemetry/metric_registry.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "server/telemetry/answer_counters.h"

namespace topk {
namespace {

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
