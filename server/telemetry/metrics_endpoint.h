// Metrics over HTTP.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "core/base/status.h"

namespace topk {

/// An HTTP endpoint for /metrics, open until it is destroyed.
class MetricsEndpoint {
 public:
  /// Serves what is collected at host:port (port 0 = any free one).
  /// UNAVAILABLE, naming the address, if it cannot be bound.
  static Result<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address,
      const std::shared_ptr<prometheus::Collectable>& metrics);
  ~MetricsEndpoint();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  MetricsEndpoint(std::unique_ptr<prometheus::Exposer> exposer,
                  std::string address)
      : exposer_(std::move(exposer)), address_(std::move(address)) {}

  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
};

}  // namespace topk
