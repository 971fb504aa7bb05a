#include "server/telemetry/open_metrics.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "core/base/text.h"
#include "server/telemetry/trace_context.h"

namespace topk {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kTotal = "_total";

// Returns a number as Go prints it, which the specification recommends: 0.001,
// 1.0, 100000.0, 1e+06. Bounds are labels, so their text must never change.
std::string FloatText(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  char buffer[32];
  const auto result = std::to_chars(std::begin(buffer), std::end(buffer),
                                    number, std::chars_format::general);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string SecondsText(std::chrono::system_clock::time_point time) {
  const std::chrono::duration<double> seconds = time.time_since_epoch();
  char buffer[32];
  const auto result =
      std::to_chars(std::begin(buffer), std::end(buffer), seconds.count(),
                    std::chars_format::fixed, 3);
  return {buffer, result.ptr};
}

// Escapes a help text or a label's value.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Returns labels without their braces.
std::string LabelText(const ClientMetric& metric) {
  std::string text;
  for (const auto& [name, value] : metric.label) {
    if (!text.empty()) text += ',';
    text += StrCat(name, "=\"", Escaped(value), "\"");
  }
  return text;
}

void AppendSample(std::string_view name, std::string_view labels,
                  std::string_view value, std::string& out) {
  out += name;
  if (!labels.empty()) out += StrCat("{", labels, "}");
  out += StrCat(" ", value);
}

// The labels have 63 characters, of at most 128.
std::string ExemplarText(const Exemplar& exemplar) {
  return StrCat(" # {trace_id=\"",
                TraceId(exemplar.trace_high, exemplar.trace_low),
                "\",span_id=\"", SpanId(exemplar.span), "\"} ",
                FloatText(exemplar.value), " ", SecondsText(exemplar.time));
}

void AppendHistogram(const std::string& name, const ClientMetric& metric,
                     const BucketExemplars& exemplars, std::string& out) {
  const ClientMetric::Histogram& histogram = metric.histogram;
  const std::string labels = LabelText(metric);
  for (size_t i = 0; i <= histogram.bucket.size(); ++i) {
    const bool last = i == histogram.bucket.size();
    const double bound = last ? std::numeric_limits<double>::infinity()
                              : histogram.bucket[i].upper_bound;
    const uint64_t count =
        last ? histogram.sample_count : histogram.bucket[i].cumulative_count;
    AppendSample(name + "_bucket",
                 StrCat(labels, labels.empty() ? "" : ",", "le=\"",
                        FloatText(bound), "\""),
                 std::to_string(count), out);
    if (i < exemplars.size() && exemplars[i].has_value()) {
      out += ExemplarText(*exemplars[i]);
    }
    out += '\n';
  }
  AppendSample(name + "_count", labels, std::to_string(histogram.sample_count),
               out);
  out += '\n';
  AppendSample(name + "_sum", labels, FloatText(histogram.sample_sum), out);
  out += '\n';
}

const char* TypeText(const MetricFamily& family) {
  switch (family.type) {
    case MetricType::Histogram:
      return "histogram";
    case MetricType::Counter:
      return family.name.ends_with(kTotal) ? "counter" : "unknown";
    default:
      return "gauge";
  }
}

// Appends the lines before a family's samples.
void AppendDescription(const MetricFamily& family, std::string& out) {
  std::string name = family.name;
  const std::string type = TypeText(family);
  if (type == "counter") name.resize(name.size() - kTotal.size());
  out += StrCat("# TYPE ", name, " ", type, "\n");
  for (const char* unit : {"seconds", "bytes"}) {
    if (name.ends_with(StrCat("_", unit))) {
      out += StrCat("# UNIT ", name, " ", unit, "\n");
    }
  }
  if (family.help.empty()) return;
  out += StrCat("# HELP ", name, " ", Escaped(family.help), "\n");
}

}  // namespace

std::string ToOpenMetrics(const std::vector<MetricFamily>& families,
                          const Exemplars& exemplars) {
  std::string out;
  for (const MetricFamily& family : families) {
    AppendDescription(family, out);
    const auto found = exemplars.find(family.name);
    for (size_t i = 0; i < family.metric.size(); ++i) {
      const ClientMetric& metric = family.metric[i];
      if (family.type == MetricType::Histogram) {
        // A series may be newer than the exemplars.
        const bool has = found != exemplars.end() && i < found->second.size();
        AppendHistogram(family.name, metric,
                        has ? found->second[i] : BucketExemplars(), out);
        continue;
      }
      AppendSample(
          family.name, LabelText(metric),
          FloatText(family.type == MetricType::Counter ? metric.counter.value
                                                       : metric.gauge.value),
          out);
      out += '\n';
    }
  }
  return out + "# EOF\n";
}

}  // namespace topk
