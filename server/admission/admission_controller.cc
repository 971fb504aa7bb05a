#include "server/admission/admission_controller.h"

#include <string>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::string FormatRate(double rate) {
  return rate == 0 ? "0, which is no limit" : NumberText(rate);
}

}  // namespace

Status AdmissionController::AdmitCall(const grpc::ServerContext& context,
                                      AdmittedCall& admitted) {
  if (closed_) {
    return {Code::kUnavailable, "SHUTTING_DOWN", "",
            "the server is shutting down"};
  }
  Result<Caller> caller = authenticator_.Authenticate(context);
  if (!caller.ok()) return caller.status();
  admitted.caller = *std::move(caller);
  return in_flight_.Admit(admitted.caller.key, admitted.reservation);
}

Status AdmissionController::AdmitRequest(AdmittedCall& admitted, int64_t bytes,
                                         int64_t own_bytes,
                                         InFlightLimiter::Charge& charge) {
  const Size all = Size(bytes) + own_bytes;
  if (Status s = charge.Add(admitted.reservation, all); !s.ok()) return s;
  const auto wait = limiter_.Take(admitted.caller.key, 1, bytes);
  if (!wait) return {};
  charge.Shrink(charge.bytes() - all.value());
  return ResourceExhausted(
      "RATE_LIMITED", StrCat("client:", admitted.caller.key),
      StrCat("client ", Quote(admitted.caller.name),
             " exceeds its rate (--client-requests-per-second = ",
             FormatRate(limiter_.rates().requests),
             ", --client-bytes-per-second = ",
             FormatRate(limiter_.rates().bytes), ")"),
      *wait);
}

Status AdmissionController::ChargeRequest(AdmittedCall& admitted, Size more,
                                          int64_t bytes,
                                          InFlightLimiter::Charge& charge) {
  Status status = charge.Add(admitted.reservation, more);
  if (!status.ok()) limiter_.Refund(admitted.caller.key, 1, bytes);
  return status;
}

}  // namespace topk
