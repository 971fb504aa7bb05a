// Logs failed, slow and sampled requests.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <string>

#include "server/admission/call_info.h"
#include "server/telemetry/line_limiter.h"
#include "server/telemetry/request_stats.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Logs finished requests. Failed requests are logged at info and slow requests
/// at warn, at most kLinesPerSecond of each. A sample of the other requests is
/// logged at info, and the rest at debug. Never logs tensor data. Thread-safe.
class AccessLog {
 public:
  /// Without this limit, callers could fill the disk with log lines.
  static constexpr int kLinesPerSecond = 100;

  /// `sample` is the fraction of OK requests to log at info, 0 to 1. Unless it
  /// is 0, requests whose trace the caller samples are logged too. A request is
  /// slow if it takes longer than `slow_nanoseconds`; 0 = never. `log` must
  /// outlive this object.
  AccessLog(spdlog::logger& log, double sample, int64_t slow_nanoseconds)
      : log_(log), sample_(sample), slow_nanoseconds_(slow_nanoseconds) {}

  /// Logs a request that has just ended, if the level and the limits allow it.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  /// Returns the number of lines not logged because of kLinesPerSecond.
  int64_t suppressed() const {
    return failed_.suppressed() + slow_.suppressed() + traced_.suppressed();
  }

 private:
  spdlog::logger& log_;
  const double sample_;
  const int64_t slow_nanoseconds_;
  LineLimiter failed_{kLinesPerSecond};
  LineLimiter slow_{kLinesPerSecond};
  LineLimiter traced_{kLinesPerSecond};
};

/// Returns a request's log fields as a JSON object. The arguments may contain
/// any text; long text is truncated.
std::string AccessFields(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status,
                         int64_t suppressed);

}  // namespace topk
