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
  return admission_.Admit(visit.caller.name, visit.share);
}

Status Gate::Ask(Visit& visit, int64_t bytes) {
  if (!limiter_.off()) {
    if (const auto wait = limiter_.Take(visit.caller.name, 1, bytes)) {
      return ResourceExhausted(
          "RATE_LIMITED", Cat("client:", visit.caller.name),
          Cat("the rate limit of ", Quote(visit.caller.name), " is reached"),
          *wait);
    }
  }
  return visit.share.Take(bytes);
}

}  // namespace topk
