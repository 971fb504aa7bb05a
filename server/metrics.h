// The topk_* metric families.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The service's own metrics. Thread-safe. Labels take values from fixed sets,
/// so their number is bounded whatever clients send.
class Metrics {
 public:
  Metrics();

  /// Records one answered or rejected request.
  void Record(const v1::TopKRequest& request, Code code, int64_t tensor_bytes,
              int64_t compute_nanoseconds);

  /// Says whether the server serves.
  void SetReady(bool ready);

  const std::shared_ptr<prometheus::Registry>& registry() const {
    return registry_;
  }

 private:
  struct OfOperator {
    prometheus::Histogram* compute_seconds;
    std::map<Code, prometheus::Counter*> requests;
  };

  OfOperator MakeOperator(const std::string& dialect,
                          const std::string& version);

  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& compute_seconds_;
  prometheus::Histogram* tensor_bytes_;
  prometheus::Histogram* k_;
  prometheus::Gauge* ready_;
  /// By dialect and version; filled by the constructor alone.
  std::map<std::pair<int, int>, OfOperator> operators_;
  OfOperator unknown_operator_;
};

}  // namespace topk
