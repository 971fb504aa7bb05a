// grpc.health.v1.Health, served by the server's own pollers.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/calls/call_router.h"
#include "server/calls/observers.h"

namespace topk {

/// The serving state of the server. Thread-safe.
class HealthState {
 public:
  /// Clients can check each of `services`, and "" for the whole server. At
  /// first, all services are serving.
  explicit HealthState(const std::vector<std::string>& services)
      : names_(services.begin(), services.end()) {
    names_.insert("");
  }

  /// Returns whether clients can check the health of this service.
  bool Has(const std::string& name) const { return names_.contains(name); }

  /// Returns whether the services are serving. All services share one state.
  bool serving() const { return serving_; }

  /// Marks all services as not serving and notifies the watchers.
  void Stop() {
    serving_ = false;
    watchers_.Notify();
  }

  Observers& watchers() { return watchers_; }

 private:
  std::set<std::string> names_;  // constant
  std::atomic<bool> serving_ = true;
  Observers watchers_;
};

inline constexpr char kHealthService[] = "grpc.health.v1.Health";
/// The maximum size of a health request in bytes.
inline constexpr size_t kMaxHealthBytes = 1024;

/// Adds the methods of grpc.health.v1.Health. Allows `max_calls` open calls,
/// and half as many from each client address. Watch calls count too: a client
/// may keep a Watch call open on each of its connections. `state` must outlive
/// `router`.
///
/// gRPC's own health service would start the polling threads of the callback
/// API. Half of all calls would then be handed over to another thread, at a
/// cost of 20 us (gRPC 1.51).
void AddHealthMethods(HealthState& state, int64_t max_calls,
                      CallRouter& router);

}  // namespace topk
