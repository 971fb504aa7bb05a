// Admission control for calls and requests.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>

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

/// Decides whether a call is admitted, by checking in this order that the
/// server is not shutting down, that the caller is authorized, and that the
/// limits on calls in flight are not reached. For each request of a call, of
/// which a stream has many, it checks the limits on bytes in flight and the
/// caller's rate. Thread-safe.
class AdmissionController {
 public:
  /// The authenticator outlives this.
  AdmissionController(const Authenticator& authenticator,
                      const AdmissionLimits& limits,
                      const RateLimiter::Rates& rates)
      : authenticator_(authenticator), in_flight_(limits), limiter_(rates) {}

  /// Rejects all calls from now on.
  void Close() { closed_ = true; }

  /// Admits a call. UNAVAILABLE after Close(); other errors: see
  /// Authenticator::Authenticate() and InFlightLimiter::Admit().
  Status AdmitCall(const grpc::ServerContext& context, AdmittedCall& admitted);

  /// Admits a request whose message has `bytes` bytes: charges these and
  /// `own_bytes` more, and the caller's rate. RESOURCE_EXHAUSTED with the
  /// reason RATE_LIMITED, or as InFlightLimiter::Charge::Add().
  Status AdmitRequest(AdmittedCall& admitted, int64_t bytes, int64_t own_bytes,
                      InFlightLimiter::Charge& charge);

  /// Charges `more` bytes once a request's cost is known. If that fails, the
  /// request's charge to the caller's rate, of `bytes` bytes, is refunded.
  Status ChargeRequest(AdmittedCall& admitted, Size more, int64_t bytes,
                       InFlightLimiter::Charge& charge);

  /// Charges the caller's rate for bytes that were received already, e.g. on a
  /// stream, so that later requests wait for them.
  void Owe(const AdmittedCall& admitted, int64_t bytes) {
    limiter_.Owe(admitted.caller.key, bytes);
  }

  /// The calls and bytes in flight.
  const InFlightLimiter& in_flight() const { return in_flight_; }

 private:
  const Authenticator& authenticator_;
  std::atomic<bool> closed_ = false;
  InFlightLimiter in_flight_;
  RateLimiter limiter_;
};

}  // namespace topk
