#include "server/admission/admission_controller.h"

#include <string>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::string FormatRate(double rate) {
  return rate == 0 ? "0 (no limit)" : NumberText(rate);
}

}  // namespace

Status AdmissionController::AdmitCall(CallInfo& call) {
  if (Status s = CheckOpen(); !s.ok()) return s;
  Result<Caller> caller = authenticator_.Authenticate(*call.context);
  if (!caller.ok()) return caller.status();
  call.caller = *std::move(caller);
  return in_flight_.Admit(call.caller.key, call.slot);
}

Status AdmissionController::CheckOpen(Time many_arrived) const {
  if (!closed_ && many_arrived >= many_since_.load()) return {};
  // Another server can accept the call at once, so the retry delay is short.
  return {Code::kUnavailable, "SHUTTING_DOWN", "",
          "the server is shutting down", std::chrono::milliseconds(100)};
}

Status AdmissionController::CheckCaller(const CallInfo& call) const {
  const Result<Caller> caller = authenticator_.Authenticate(*call.context);
  return caller.ok() ? Status() : caller.status();
}

Status AdmissionController::AdmitRequest(const CallInfo& call, int64_t bytes,
                                         int64_t own_bytes,
                                         InFlightLimiter::Charge& charge) {
  const auto wait = limiter_.Take(call.caller.key, 1, bytes);
  if (!wait) return charge.Add(Size(bytes) + own_bytes);
  return ResourceExhausted(
      "RATE_LIMITED", StrCat("client:", call.caller.key),
      StrCat("client ", Quote(call.caller.name),
             " exceeds its rate (--client-requests-per-second = ",
             FormatRate(limiter_.rates().requests),
             ", --client-bytes-per-second = ",
             FormatRate(limiter_.rates().bytes), ")"),
      *wait);
}

}  // namespace topk
