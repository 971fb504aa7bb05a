// Admission control for calls and requests.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/status.h"
#include "server/admission/in_flight_limiter.h"
#include "server/admission/rate_limiter.h"
#include "server/security/authenticator.h"

namespace topk {

/// An admitted call: its caller and its reservation.
struct AdmittedCall {
  Caller caller;
  InFlightLimiter::Reservation reservation;
};

/// Admits calls and their requests. Checks for each call that the server is not
/// shutting down, that the caller is authorized, and that the limits on calls
/// in flight are not reached, in this order. Checks for each request, of which
/// a stream may have many, the caller's rate and the limits on bytes in flight.
/// Thread-safe.
class AdmissionController {
 public:
  /// The authenticator must outlive this.
  AdmissionController(const Authenticator& authenticator,
                      const AdmissionLimits& limits,
                      const RateLimiter::Rates& rates)
      : authenticator_(authenticator), in_flight_(limits), limiter_(rates) {}

  /// Rejects all calls from now on.
  void Close() { closed_ = true; }

  /// Admits a call. UNAVAILABLE after Close(); other errors: see
  /// Authenticator::Authenticate() and InFlightLimiter::Admit().
  Status AdmitCall(const grpc::ServerContext& context, AdmittedCall& admitted);

  /// Admits a request with a message of `bytes` bytes. Charges the caller's
  /// rate, and then the bytes of the message and `own_bytes` more.
  /// RESOURCE_EXHAUSTED with the reason RATE_LIMITED; other errors: see
  /// InFlightLimiter::Charge::Add(). If the bytes do not fit, the rate stays
  /// charged: the message was received.
  Status AdmitRequest(AdmittedCall& admitted, int64_t bytes, int64_t own_bytes,
                      InFlightLimiter::Charge& charge);

  /// Returns OK if a call with this context would be admitted now: UNAVAILABLE
  /// after Close(), or as Authenticator::Authenticate().
  Status CheckAdmitted(const grpc::ServerContextBase& context) const;

  /// Charges the caller's rate for a message that was received on a stream.
  void DebitUnchecked(const AdmittedCall& admitted, int64_t bytes) {
    limiter_.DebitUnchecked(admitted.caller.key, bytes);
  }

  /// Returns how long a stream must wait before it reads, because its caller
  /// has sent more than its rate allows; nothing if it need not wait.
  std::optional<std::chrono::milliseconds> ReadDelay(
      const AdmittedCall& admitted) {
    return limiter_.Take(admitted.caller.key, 0, 0);
  }

  /// Returns the limiter that counts the calls and bytes in flight.
  const InFlightLimiter& in_flight() const { return in_flight_; }

 private:
  const Authenticator& authenticator_;
  std::atomic<bool> closed_ = false;
  InFlightLimiter in_flight_;
  RateLimiter limiter_;
};

}  // namespace topk
