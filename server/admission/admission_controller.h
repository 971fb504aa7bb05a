// Admits or rejects calls and requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "server/admission/call_info.h"
#include "server/admission/in_flight_limiter.h"
#include "server/admission/rate_limiter.h"
#include "server/security/authenticator.h"
#include "topk/status.h"

namespace topk {

/// Decides whether to admit calls and requests. Rejects a call if the server is
/// shutting down, the caller is not authorized, or too many calls are in
/// flight. Rejects a request if the caller exceeds its rate limit or too many
/// bytes are in flight. Thread-safe.
class AdmissionController {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `authenticator` must outlive this object.
  AdmissionController(const Authenticator& authenticator,
                      const AdmissionLimits& limits,
                      const RateLimiter::Rates& rates)
      : authenticator_(authenticator), in_flight_(limits), limiter_(rates) {}

  /// Rejects all new calls. A StreamTopK call ends if no message arrives for
  /// `max_pause`, or, if this is 0, even while messages arrive. May be called
  /// again to change `max_pause`.
  void Close(std::chrono::milliseconds max_pause) {
    max_pause_ = max_pause;
    closed_ = true;
  }
  /// Returns the argument of Close().
  std::chrono::milliseconds max_pause() const { return max_pause_; }

  /// From now on, CheckOpen() rejects calls with many requests that arrived
  /// before `time`.
  void EndManyBefore(Time time) { many_since_ = time; }

  /// Admits a call, and sets its caller and its slot. Returns UNAVAILABLE after
  /// Close(). For other errors, see Authenticator::Authenticate() and
  /// InFlightLimiter::Admit().
  Status AdmitCall(CallInfo& call);

  /// Admits a request whose message has `bytes` bytes. Counts the message
  /// against the caller's rate limit, then adds `bytes` and the request's other
  /// memory, `own_bytes`, to `charge`. Returns RESOURCE_EXHAUSTED with reason
  /// RATE_LIMITED if the rate limit is exceeded. For other errors, see
  /// InFlightLimiter::Charge::Add(). If the bytes do not fit, the message still
  /// counts against the rate limit, because it was received anyway.
  Status AdmitRequest(const CallInfo& call, int64_t bytes, int64_t own_bytes,
                      InFlightLimiter::Charge& charge);

  /// Returns UNAVAILABLE after Close(), and for a call with many requests that
  /// arrived before the time passed to EndManyBefore().
  Status CheckOpen(Time many_arrived = Time::max()) const;

  /// Checks again whether the caller of an admitted call is authorized, because
  /// its credentials may have expired. Returns the errors of
  /// Authenticator::Authenticate().
  Status CheckCaller(const CallInfo& call) const;

  /// Counts bytes that were received anyway, such as the next message of a
  /// stream, against the rate limit. Never fails.
  void DebitUnchecked(const CallInfo& call, int64_t bytes) {
    limiter_.DebitUnchecked(call.caller.key, bytes);
  }

  /// Returns how long a stream must wait before its next read, or nullopt if
  /// the caller has not exceeded the rate limit.
  std::optional<std::chrono::milliseconds> ReadDelay(const CallInfo& call) {
    return limiter_.Take(call.caller.key, 0, 0);
  }

  const InFlightLimiter& in_flight() const { return in_flight_; }

 private:
  const Authenticator& authenticator_;
  std::atomic<std::chrono::milliseconds> max_pause_ =
      std::chrono::milliseconds();
  std::atomic<bool> closed_ = false;
  std::atomic<Time> many_since_ = Time::min();
  InFlightLimiter in_flight_;
  RateLimiter limiter_;
};

}  // namespace topk
