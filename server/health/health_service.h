// grpc.health.v1.Health, on the same threads as everything else.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.pb.h"
#include "server/calls/call_router.h"
#include "server/health/call_limit.h"

namespace topk {

/// Whether the server serves, for everyone who reports it. Thread-safe.
class HealthState {
 public:
  /// Is notified of changes.
  class Watcher {
   public:
    /// The state has changed.
    virtual void OnChange() = 0;

   protected:
    ~Watcher() = default;
  };

  /// The names that can be asked about, "" (the whole server) among them. All
  /// serve from the start.
  explicit HealthState(std::set<std::string> names);

  /// Returns whether there is such a name.
  bool Has(const std::string& name) const { return names_.contains(name); }

  /// Returns the state of the names that there are, which share it, or of all
  /// others.
  grpc::health::v1::HealthCheckResponse::ServingStatus StateOf(
      bool has_name) const;

  /// Nothing serves from now on: watchers are notified.
  void Stop();

  /// From now on a watcher is notified, and kept alive until it is removed.
  void Add(std::shared_ptr<Watcher> watcher);
  void Remove(const std::shared_ptr<Watcher>& watcher);

 private:
  const std::set<std::string> names_;
  std::atomic<bool> serving_ = true;
  std::mutex mutex_;
  std::set<std::shared_ptr<Watcher>> watchers_;
};

/// Serves the state. gRPC's own health service starts the threads of the
/// callback API: these poll too, and half of all calls change threads, at 20 us
/// each (gRPC 1.51). Thread-safe; one for each grpc::Server.
class HealthService {
 public:
  /// Open calls of one server, watches included. Clients that check health keep
  /// one watch per connection.
  static constexpr int kMaxOpenCalls = 4096;
  /// The largest request, in bytes.
  static constexpr size_t kMaxMessageBytes = 1024;
  /// The service's name in the contract.
  static constexpr char kName[] = "grpc.health.v1.Health";

  /// The state must outlive the service.
  explicit HealthService(HealthState& state) : state_(state) {}

  /// Adds the methods. The service must outlive the router.
  void AddMethods(CallRouter& router);

 private:
  class HealthCall;

  HealthState& state_;
  CallLimit limit_{"health", kMaxOpenCalls};
  std::atomic<int> waiting_ = 0;  // calls whose request is still to come
};

}  // namespace topk
