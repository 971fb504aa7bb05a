// grpc.health.v1.Health, on the same threads as everything else.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/event_loop.h"

namespace topk {

/// Says whether the server serves. gRPC's own health service brings the threads
/// of the callback API along: these poll too, and hand half of all calls over,
/// at 20 us each (gRPC 1.51). Thread-safe.
class HealthService {
 public:
  /// The names that can be asked about, "" (the whole server) among them. All
  /// serve from the start.
  explicit HealthService(std::set<std::string> names);

  /// What the server registers.
  grpc::Service& rpc() { return rpc_; }

  /// Takes calls from a loop until the server shuts down.
  void Start(EventLoop& loop);

  /// Nothing serves from now on: whoever watches is told.
  void Stop();

 private:
  class CheckCall;
  class WatchCall;

  using Rpc = grpc::health::v1::Health::WithAsyncMethod_Check<
      grpc::health::v1::Health::WithAsyncMethod_Watch<
          grpc::health::v1::Health::Service>>;

  grpc::health::v1::HealthCheckResponse Answer(const std::string& name);

  const std::set<std::string> names_;
  Rpc rpc_;
  std::atomic<bool> serving_ = true;
  std::mutex mutex_;
  std::set<WatchCall*> watches_;
};

}  // namespace topk
