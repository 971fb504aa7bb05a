// Health alone, for probes that have neither certificates nor tokens.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/health/health_service.h"

namespace topk {

/// A plaintext server of grpc.health.v1 and nothing else, until it is
/// destroyed. Costs a thread.
class HealthEndpoint {
 public:
  /// Serves at host:port (port 0 = any free one). UNAVAILABLE, naming the
  /// address, if it cannot be bound. The state outlives it.
  static Result<std::unique_ptr<HealthEndpoint>> Start(
      const std::string& address, HealthState& state);
  ~HealthEndpoint();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  explicit HealthEndpoint(HealthState& state) : health_(state) {}

  HealthService health_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<EventLoop> loop_;
  std::string address_;
};

}  // namespace topk
