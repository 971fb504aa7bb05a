// OpenMetrics text, by its specification.
#include "server/telemetry/open_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace topk {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

MetricFamily FamilyOf(MetricType type, const std::string& name,
                      const std::vector<double>& values) {
  MetricFamily family;
  family.name = name;
  family.type = type;
  for (const double value : values) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.gauge.value = value;
    metric.counter.value = value;
  }
  return family;
}

// Returns the text of one gauge.
std::string GaugeText(double value) {
  const std::string text =
      ToOpenMetrics({FamilyOf(MetricType::Gauge, "a", {value})}, {});
  const std::string before = "# TYPE a gauge\na ";
  const std::string after = "\n# EOF\n";
  EXPECT_TRUE(text.starts_with(before) && text.ends_with(after)) << text;
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

MetricFamily LatencyHistogram() {
  MetricFamily family = FamilyOf(MetricType::Histogram, "a_seconds", {0});
  family.metric[0].label = {{"method", "x"}};
  family.metric[0].histogram = {7, 2.5, {{3, 0.001}, {5, 1}}};
  return family;
}

Exemplar ExemplarOf(double value) {
  return {0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 0x00f067aa0ba902b7, value,
          std::chrono::system_clock::time_point(
              std::chrono::milliseconds(1795442400'042))};
}

TEST(OpenMetrics, EndsWithoutMetrics) {
  EXPECT_EQ(ToOpenMetrics({}, {}), "# EOF\n");
}

TEST(OpenMetrics, ACountersFamilyLacksTheSuffixOfItsSamples) {
  MetricFamily family =
      FamilyOf(MetricType::Counter, "process_cpu_seconds_total", {3});
  family.help = "CPU time";
  EXPECT_EQ(ToOpenMetrics({family}, {}),
            "# TYPE process_cpu_seconds counter\n"
            "# UNIT process_cpu_seconds seconds\n"
            "# HELP process_cpu_seconds CPU time\n"
            "process_cpu_seconds_total 3.0\n"
            "# EOF\n");
}

// As a counter its sample would be a_total: another series than in the text
// format.
TEST(OpenMetrics, ACounterWithoutTheSuffixIsOfUnknownType) {
  EXPECT_EQ(ToOpenMetrics({FamilyOf(MetricType::Counter, "a", {3})}, {}),
            "# TYPE a unknown\na 3.0\n# EOF\n");
}

TEST(OpenMetrics, OnlyANamesLastWordIsAUnit) {
  for (const char* name : {"a_seconds_left", "aseconds", "a_bytes_total"}) {
    EXPECT_THAT(ToOpenMetrics({FamilyOf(MetricType::Gauge, name, {1})}, {}),
                Not(HasSubstr("UNIT")))
        << name;
  }
  EXPECT_THAT(ToOpenMetrics({FamilyOf(MetricType::Gauge, "a_bytes", {1})}, {}),
              HasSubstr("# UNIT a_bytes bytes\n"));
}

TEST(OpenMetrics, NumbersAreCanonical) {
  // Those of the specification, in "Considerations: Canonical Numbers".
  for (const char* text :
       {"0.0", "0.001", "0.002", "0.01", "0.1", "0.9", "0.95", "0.99", "0.999",
        "1.0", "1.7", "10.0", "1e-10", "1e-09", "1e-05", "0.0001", "100000.0",
        "1e+06", "1e+10"}) {
    EXPECT_EQ(GaugeText(std::stod(text)), text);
  }
  EXPECT_EQ(GaugeText(262144), "262144.0");
  EXPECT_EQ(GaugeText(2097152), "2.097152e+06");
  EXPECT_EQ(GaugeText(-1.5), "-1.5");
  EXPECT_EQ(GaugeText(std::nan("")), "NaN");
  EXPECT_EQ(GaugeText(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(GaugeText(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(OpenMetrics, LabelsAndHelpAreEscaped) {
  MetricFamily family = FamilyOf(MetricType::Gauge, "a", {1});
  family.help = "a \"b\"\n\\";
  family.metric[0].label = {{"x", "\"\\\n"}, {"y", "\xc3\xa4"}, {"z", ""}};
  EXPECT_EQ(ToOpenMetrics({family}, {}),
            "# TYPE a gauge\n"
            "# HELP a a \\\"b\\\"\\n\\\\\n"
            "a{x=\"\\\"\\\\\\n\",y=\"\xc3\xa4\",z=\"\"} 1.0\n"
            "# EOF\n");
}

TEST(OpenMetrics, ExemplarsAreOnTheirBucketsOnly) {
  const Exemplars exemplars = {
      {"a_seconds", {{ExemplarOf(0.0005), std::nullopt, ExemplarOf(2)}}},
      {"b_seconds", {{ExemplarOf(1)}}}};
  const std::string ids =
      "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\","
      "span_id=\"00f067aa0ba902b7\"}";
  EXPECT_EQ(ToOpenMetrics({LatencyHistogram()}, exemplars),
            "# TYPE a_seconds histogram\n"
            "# UNIT a_seconds seconds\n"
            "a_seconds_bucket{method=\"x\",le=\"0.001\"} 3 # " +
                ids + " 0.0005 1795442400.042\n" +
                "a_seconds_bucket{method=\"x\",le=\"1.0\"} 5\n"
                "a_seconds_bucket{method=\"x\",le=\"+Inf\"} 7 # " +
                ids + " 2.0 1795442400.042\n" +
                "a_seconds_count{method=\"x\"} 7\n"
                "a_seconds_sum{method=\"x\"} 2.5\n"
                "# EOF\n");
}

TEST(OpenMetrics, HistogramsHaveNoTimeOfCreation) {
  EXPECT_THAT(ToOpenMetrics({LatencyHistogram()}, {}),
              Not(HasSubstr("_created")));
}

TEST(OpenMetrics, ASeriesMayBeNewerThanTheExemplars) {
  MetricFamily family = LatencyHistogram();
  family.metric.push_back(family.metric[0]);
  family.metric[1].label = {};
  const std::string text =
      ToOpenMetrics({family}, {{"a_seconds", {{ExemplarOf(0.0005), {}, {}}}}});
  EXPECT_THAT(text, HasSubstr("{method=\"x\",le=\"0.001\"} 3 # {"));
  EXPECT_THAT(text, HasSubstr("a_seconds_bucket{le=\"0.001\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("a_seconds_count 7\n"));
}

}  // namespace
}  // namespace topk
