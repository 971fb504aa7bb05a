// Who is let in, with how much.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>

#include "core/base/status.h"
#include "server/admission/in_flight_limiter.h"
#include "server/admission/rate_limiter.h"
#include "server/security/authenticator.h"

namespace topk {

/// A call that was let in: whose it is, and what it takes of the server.
struct AdmittedCall {
  Caller caller;
  InFlightLimiter::Reservation reservation;
};

/// Asks each call what it must be asked, in this order: whether the server
/// takes calls at all, who it is, whether there is room for one more; and each
/// request, of which a stream has many, whether its caller may ask again and
/// whether there is room for its bytes. Thread-safe.
class AdmissionController {
 public:
  AdmissionController(const AdmissionLimits& limits,
                      const RateLimiter::Rates& rates)
      : in_flight_(limits), limiter_(rates) {}

  /// Who checks callers. Before any call; it outlives this.
  void SetAuthenticator(const Authenticator* authenticator) {
    authenticator_ = authenticator;
  }

  /// Takes no calls from now on.
  void Close() { closed_ = true; }

  /// A call has come. UNAVAILABLE once this is closed; see
  /// Authenticator::Authenticate() and InFlightLimiter::Admit().
  Status AdmitCall(const grpc::ServerContext& context, AdmittedCall& admitted);

  /// A request of `bytes` bytes has arrived: charges them and `own_bytes` more,
  /// and the caller's rate. RESOURCE_EXHAUSTED, RATE_LIMITED; see
  /// InFlightLimiter::Reservation::Take().
  Status AdmitRequest(AdmittedCall& admitted, int64_t bytes, int64_t own_bytes,
                      InFlightLimiter::Charge& charge);

  /// A request's cost is known: charges `more` bytes for it. If there is no
  /// room, AdmitRequest() counts as not called for the caller's rate.
  Status ChargeRequest(AdmittedCall& admitted, Size more, int64_t bytes,
                       InFlightLimiter::Charge& charge);

  /// Bytes have come already, e.g. on a stream: whoever sent them waits
  /// afterwards.
  void Owe(const AdmittedCall& admitted, int64_t bytes) {
    if (!limiter_.off()) limiter_.Owe(admitted.caller.key, bytes);
  }

  /// What is inside.
  const InFlightLimiter& in_flight() const { return in_flight_; }

 private:
  const Authenticator* authenticator_ = nullptr;
  std::atomic<bool> closed_ = false;
  InFlightLimiter in_flight_;
  RateLimiter limiter_;
};

}  // namespace topk
