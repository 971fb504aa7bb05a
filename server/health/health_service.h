// grpc.health.v1.Health, on the same threads as everything else.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/event_loop.h"

namespace topk {

/// Whether the server serves, for all who say so. Thread-safe.
class HealthState {
 public:
  /// Who waits to be told of a change.
  class Watcher {
   public:
    /// The state may have changed; the mutex is held.
    virtual void Send() = 0;

   protected:
    ~Watcher() = default;
  };

  /// The names that can be asked about, "" (the whole server) among them. All
  /// serve from the start.
  explicit HealthState(std::set<std::string> names);

  /// Whether there is such a name.
  bool Has(const std::string& name) const { return names_.contains(name); }

  /// What is to be said of a name.
  grpc::health::v1::HealthCheckResponse Answer(const std::string& name) const;

  /// Nothing serves from now on: whoever watches is told.
  void Stop();

  /// Held while watchers come, send and go.
  std::mutex& mutex() { return mutex_; }
  void Add(Watcher* watcher) { watchers_.insert(watcher); }
  void Remove(Watcher* watcher) { watchers_.erase(watcher); }

 private:
  const std::set<std::string> names_;
  std::atomic<bool> serving_ = true;
  std::mutex mutex_;
  std::set<Watcher*> watchers_;
};

/// Says whether the server serves. gRPC's own health service brings the threads
/// of the callback API along: these poll too, and hand half of all calls over,
/// at 20 us each (gRPC 1.51). Thread-safe; one for each grpc::Server.
class HealthService {
 public:
  /// The state outlives the service.
  explicit HealthService(HealthState& state) : state_(state) {}

  /// What the server registers.
  grpc::Service& rpc() { return rpc_; }

  /// Takes calls from a loop until the server shuts down.
  void Start(EventLoop& loop);

 private:
  class CheckCall;
  class WatchCall;

  using Rpc = grpc::health::v1::Health::WithAsyncMethod_Check<
      grpc::health::v1::Health::WithAsyncMethod_Watch<
          grpc::health::v1::Health::Service>>;

  HealthState& state_;
  Rpc rpc_;
};

}  // namespace topk
