// Logs requests that failed, took long or were sampled.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "server/telemetry/line_limiter.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/trace_context.h"
#include "topk/v1/topk.pb.h"

namespace topk {

class CallSpan;

/// The data that all requests of one call share.
struct CallInfo {
  const grpc::ServerContext* context = nullptr;
  /// The method's name.
  std::string_view method;
  /// When the call's headers arrived.
  RequestStats::Clock::time_point arrived{};
  TraceContext trace;
  /// The authenticated caller, or ""; see Caller.
  std::string_view principal;
  /// Null unless the call is sampled.
  CallSpan* span = nullptr;
};

/// Logs finished requests: failed ones at info and slow ones at warn, at most
/// kLinesPerSecond of each; a sample of the others at info, the rest at debug.
/// Never logs tensor data. Thread-safe.
class AccessLog {
 public:
  /// Bounded because clients could fill a disk with failing requests.
  static constexpr int kLinesPerSecond = 100;

  /// `sample` is the share of OK requests that are logged at info, 0 to 1. A
  /// request that took longer than `slow_nanoseconds` is slow; 0 means that no
  /// request is. `log` must outlive this object.
  AccessLog(spdlog::logger& log, double sample, int64_t slow_nanoseconds)
      : log_(log), slow_nanoseconds_(slow_nanoseconds), sampler_(sample) {}

  /// Logs a request that has just ended, if it is to be logged.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  /// Returns the number of lines above kLinesPerSecond, which were not logged.
  int64_t suppressed() const {
    return failed_.suppressed() + slow_.suppressed();
  }

 private:
  spdlog::logger& log_;
  const int64_t slow_nanoseconds_;
  Sampler sampler_;
  LineLimiter failed_{kLinesPerSecond};
  LineLimiter slow_{kLinesPerSecond};
};

/// Returns the fields of a request's line as a JSON object. The arguments may
/// contain any text; long text is truncated.
std::string AccessFields(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status,
                         int64_t suppressed);

}  // namespace topk
