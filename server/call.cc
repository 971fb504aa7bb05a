#include "server/call.h"

#include <chrono>

namespace topk {

Call::Call(TopKService& service, EventLoop& loop,
           const RpcMetrics::Method& method)
    : EventSource(loop), service_(service), method_(method) {
  context_.AsyncNotifyWhenDone(&ended_);
}

Call::~Call() {
  if (count_.has_value()) --service_.open_calls();
}

void Call::Release() {
  if (--owed_ == 0) delete this;
}

Status Call::CheckAlive() const {
  if (!cancelled_) return {};
  if (context_.deadline() <= std::chrono::system_clock::now()) {
    return {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED", "",
            "the call's deadline has passed"};
  }
  return Cancelled();
}

Status Call::Cancelled() {
  return {Code::kCancelled, "CANCELLED", "", "the client cancelled the call"};
}

void Call::Arrive(bool ok) {
  if (!ok) {  // the server shuts down; `ended_` does not come for such
    delete this;
    return;
  }
  count_.emplace(method_);
  ++service_.open_calls();
  Hold();  // for `ended_`
  Accept();
  if (service_.draining()) {
    return Refuse({Code::kUnavailable, "SHUTTING_DOWN", "",
                   "the server is shutting down"});
  }
  Result<Caller> caller = service_.Authenticate(context_);
  if (!caller.ok()) return Refuse(caller.status());
  caller_ = *std::move(caller);
  Begin();
}

void Call::End(bool) {
  if (context_.IsCancelled()) cancelled_ = true;
  Ended();
  Release();
}

}  // namespace topk
