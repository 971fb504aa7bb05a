#include "server/admission/gate.h"

#include "core/base/text.h"

namespace topk {

Status Gate::Enter(const grpc::ServerContext& context, Visit& visit) {
  if (closed_) {
    return {Code::kUnavailable, "SHUTTING_DOWN", "",
            "the server is shutting down"};
  }
  Result<Caller> caller = authenticator_->Authenticate(context);
  if (!caller.ok()) return caller.status();
  visit.caller = *std::move(caller);
  return admission_.Admit(visit.caller.key, visit.share);
}

Status Gate::AdmitRequest(Visit& visit, int64_t bytes, int64_t own_bytes,
                          Admission::Charge& charge) {
  const Size all = Size(bytes) + own_bytes;
  if (Status s = charge.Add(visit.share, all); !s.ok()) return s;
  if (limiter_.off()) return {};
  const auto wait = limiter_.Take(visit.caller.key, 1, bytes);
  if (!wait) return {};
  charge.Shrink(charge.bytes() - all.value());
  return ResourceExhausted(
      "RATE_LIMITED", Cat("client:", visit.caller.key),
      Cat("client ", Quote(visit.caller.name),
          " exceeds its rate (--client-requests-per-second, "
          "--client-bytes-per-second)"),
      *wait);
}

Status Gate::ChargeRequest(Visit& visit, Size more, int64_t bytes,
                           Admission::Charge& charge) {
  Status status = charge.Add(visit.share, more);
  if (!status.ok()) limiter_.Refund(visit.caller.key, 1, bytes);
  return status;
}

}  // namespace topk
