// A line of each call that is worth one.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <cstdint>
#include <optional>
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
  /// When the call was here with its headers.
  RequestStats::Clock::time_point arrived{};
  TraceContext trace;
  /// The authenticated caller, or ""; see Caller.
  std::string_view principal;
  /// Null unless the call is sampled.
  CallSpan* span = nullptr;
};

/// Selects the requests that are logged.
struct AccessOptions {
  /// The share of OK requests, 0 .. 1, which are logged at info.
  double sample = 0;
  /// Requests that took longer are logged at warn; 0 = none.
  int64_t slow_nanoseconds = 0;
};

/// Logs finished requests: failed ones at info and slow ones at warn, at most
/// kLinesPerSecond of each; a sample of the others at info, the rest at debug.
/// Never a tensor. Thread-safe.
class AccessLog {
 public:
  /// More would be a way to fill a disk.
  static constexpr int kLinesPerSecond = 100;

  /// The logger outlives this.
  AccessLog(spdlog::logger& log, const AccessOptions& options);

  /// Logs a request that has ended now, or does not.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  /// How many lines there were too many of.
  int64_t suppressed() const {
    return failed_.suppressed() + slow_.suppressed();
  }

 private:
  struct Line {
    spdlog::level::level_enum level;
    /// Lines of this kind that were not written before it.
    int64_t suppressed;
  };
  std::optional<Line> Choose(const CallInfo& call, const RequestStats& stats,
                             const Status& status);

  spdlog::logger& log_;
  const int64_t slow_nanoseconds_;
  Sampler sampler_;
  LineLimiter failed_{kLinesPerSecond};
  LineLimiter slow_{kLinesPerSecond};
};

/// Returns the line's fields as a JSON object. Texts may hold anything; long
/// ones are cut.
std::string AccessFields(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status,
                         int64_t suppressed);

}  // namespace topk
