// The registry of the metrics.
#include "server/telemetry/metric_registry.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

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

}  // namespace
}  // namespace topk
