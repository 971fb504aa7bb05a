#include "server/admission/admission_controller.h"

#include <string>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::string FormatRate(double rate) {
  return rate == 0 ? "0 (no limit)" : NumberText(rate);
}

Status ShuttingDown() {
  // Another server can accept the call at once, so the retry delay is short.
  return {Code::kUnavailable, "SHUTTING_DOWN", "",
          "the server is shutting down", std::chrono::milliseconds(100)};
}

}  // namespace

Status AdmissionController::AdmitCall(const grpc::ServerContext& context,
                                      AdmittedCall& admitted) {
  if (closed_) return ShuttingDown();
  Result<Caller> caller = authenticator_.Authenticate(context);
  if (!caller.ok()) return caller.status();
  admitted.caller = *std::move(caller);
  return in_flight_.Admit(admitted.caller.key, admitted.slot);
}

Status AdmissionController::CheckAdmitted(
    const grpc::ServerContextBase& context) const {
  const Result<Caller> caller = authenticator_.Authenticate(context);
  if (!caller.ok()) return caller.status();
  return closed_ ? ShuttingDown() : Status();
}

Status AdmissionController::AdmitRequest(AdmittedCall& admitted, int64_t bytes,
                                         int64_t own_bytes,
                                         InFlightLimiter::Charge& charge) {
  const auto wait = limiter_.Take(admitted.caller.key, 1, bytes);
  if (!wait) return charge.Add(Size(bytes) + own_bytes);
  return ResourceExhausted(
      "RATE_LIMITED", StrCat("client:", admitted.caller.key),
      StrCat("client ", Quote(admitted.caller.name),
             " exceeds its rate (--client-requests-per-second = ",
             FormatRate(limiter_.rates().requests),
             ", --client-bytes-per-second = ",
             FormatRate(limiter_.rates().bytes), ")"),
      *wait);
}

}  // namespace topk
