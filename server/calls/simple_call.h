// Unary calls without tensors, such as GetCapabilities.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/calls/call_router.h"
#include "server/calls/parsed_message.h"
#include "server/calls/service_call.h"
#include "server/calls/shared_state.h"
#include "server/calls/write_message.h"

namespace topk {

/// Answers one request, on the poller that received the message or on a worker.
/// Only one thread at a time uses the call.
template <class Request, class Response, class Answer>
class SimpleCall final : public ServiceCall {
 public:
  /// See AddSimpleMethod(). `answer` must outlive the call.
  SimpleCall(SharedState& state, Call& call, const Answer& answer,
             int64_t nanoseconds)
      : ServiceCall(state, call), answer_(answer), nanoseconds_(nanoseconds) {}

 private:
  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    Status received = CheckReceived(ok, message);
    if (!received.ok()) return call_.Finish(received);
    message_.Swap(&message);
    const auto bytes = static_cast<int64_t>(message_.Length());
    if (Status s = state_.admission.AdmitRequest(
            info_, bytes, SliceMemory(message_), charge_);
        !s.ok()) {
      return call_.Finish(s);
    }
    if (nanoseconds_ == 0 && !call_.loop().IsBehind()) return AnswerAndFinish();
    Compact(message_);
    Enqueue(nanoseconds_, [this] {
      if (const Status gone = call_.CheckAlive(); !gone.ok())
        return call_.Finish(gone);
      AnswerAndFinish();
    });
  }

  void AnswerAndFinish() {
    grpc::ByteBuffer response;
    Status status = CatchBadAlloc([&]() -> Status {
      Request request;
      if (Status s = ReadMessage(message_, request); !s.ok()) return s;
      Response to;
      if (Status s = answer_(request, to, info_.caller); !s.ok()) return s;
      CopyMessage(to).Swap(&response);
      return {};
    });
    message_.Clear();
    charge_.Shrink(0);
    // Responses up to this size do not count as in flight. An admitted health
    // check, whose response is small, therefore never exceeds a memory limit.
    constexpr int64_t kAlwaysSent = int64_t{16} << 10;
    const auto bytes = static_cast<int64_t>(response.Length());
    is_answered_ = true;
    if (status.ok() && bytes > kAlwaysSent) {
      status = charge_.Add(bytes);
      is_answered_ = status.ok();
    }
    status.ok() ? call_.Finish(response) : call_.Finish(status);
  }

  // Only a call without an answer counts as a request.
  void RecordRequest(const Status& status) override {
    if (!is_answered_) ServiceCall::RecordRequest(status);
  }

  const Answer& answer_;
  const int64_t nanoseconds_;
  bool is_answered_ = false;
  InFlightLimiter::Charge charge_{info_.slot};
  grpc::ByteBuffer message_;
};

/// Adds a method whose messages hold no tensors. `answer` takes the request,
/// the response to fill and the caller, and returns a status. `nanoseconds` is
/// the estimated CPU time of `answer`, or 0 if negligible. If `nanoseconds` is
/// 0, a poller calls `answer`, otherwise a worker does. The service must
/// outlive the router.
template <class Request, class Response, class Answer>
void AddSimpleMethod(CallRouter& router, SharedState& state,
                     const std::string& path, Answer answer,
                     int64_t nanoseconds = 0) {
  router.Add(path,
             [&state, answer = std::move(answer), nanoseconds](Call& call) {
               return std::make_unique<SimpleCall<Request, Response, Answer>>(
                   state, call, answer, nanoseconds);
             });
}

}  // namespace topk
