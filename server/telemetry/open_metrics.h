// OpenMetrics 1.0, the text format that has exemplars.
// https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/telemetry/exemplar.h"

namespace topk {

/// Returns counters, gauges and histograms as OpenMetrics text, with exemplars
/// of the buckets. A counter's name ends in _total; otherwise its type is
/// unknown, so that the series' name is that of the other text format.
std::string ToOpenMetrics(const std::vector<prometheus::MetricFamily>& families,
                          const Exemplars& exemplars);

}  // namespace topk
