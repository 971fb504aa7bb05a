#include "server/calls/simple_call.h"

#include "server/calls/service_call.h"

namespace topk {
namespace {

// Answers one request, on the poller that received the message or on a worker.
// Only one of them at a time uses `charge_` and `message_`.
class SimpleCall final : public ServiceCall {
 public:
  SimpleCall(TopKService& service, Call& call, const SimpleAnswer& answer,
             int64_t nanoseconds)
      : ServiceCall(service, call, Kind::kUnary),
        answer_(answer),
        nanoseconds_(nanoseconds) {}

 private:
  void OnRequest(grpc::ByteBuffer& message) override {
    message_.Swap(&message);
    const auto bytes = static_cast<int64_t>(message_.Length());
    if (Status s = service_.admission().AdmitRequest(
            admitted(), bytes, SliceMemory(message_), charge_);
        !s.ok()) {
      return Refuse(s);
    }
    int64_t nanoseconds = nanoseconds_;
    if (bytes > kMaxPollerBytes && bytes <= kMaxParsedBytes) {
      nanoseconds += 1'000'000;  // to parse kMaxParsedBytes
    }
    if (nanoseconds == 0) return AnswerAndFinish();
    Compact(message_);
    Enqueue(nanoseconds, [this] {
      if (const Status gone = call_.CheckAlive(); !gone.ok())
        return call_.Finish(gone);
      AnswerAndFinish();
    });
  }

  void AnswerAndFinish() {
    grpc::ByteBuffer response;
    const Status status = CatchBadAlloc(
        [&] { return answer_(message_, response, admitted().caller); });
    message_.Clear();
    charge_.Shrink(0);
    // Small responses are not charged, so that a health check is never refused
    // after it was admitted.
    constexpr int64_t kAlwaysSent = int64_t{16} << 10;
    const auto bytes = static_cast<int64_t>(response.Length());
    if (status.ok() && bytes > kAlwaysSent) {
      const Status charged = charge_.Add(bytes);
      if (!charged.ok()) return Refuse(charged);
    }
    status.ok() ? call_.Finish(response) : call_.Finish(status);
  }

  const SimpleAnswer& answer_;
  const int64_t nanoseconds_;
  InFlightLimiter::Charge charge_{admitted().reservation};
  grpc::ByteBuffer message_;
};

}  // namespace

void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, SimpleAnswer answer,
                     int64_t nanoseconds) {
  router.Add(
      path, [&service, answer = std::move(answer), nanoseconds](Call& call) {
        return std::make_unique<SimpleCall>(service, call, answer, nanoseconds);
      });
}

}  // namespace topk
