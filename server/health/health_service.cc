#include "server/health/health_service.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/common/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/admission/in_flight_limiter.h"
#include "server/calls/compression.h"
#include "server/calls/parsed_message.h"
#include "server/calls/write_message.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Addresses in an IPv6 network with this prefix length count as one client.
constexpr int kIpv6Prefix = 64;

// A call waits for its request message for up to kPatience, or kImpatience if
// more than kMaxPatient calls wait. This limits the memory of waiting calls.
// Clients normally send the request with the call.
constexpr int kMaxPatient = 2;
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(10);
constexpr std::chrono::milliseconds kImpatience{250};

grpc::ByteBuffer ResponseOf(HealthCheckResponse::ServingStatus state) {
  HealthCheckResponse response;
  response.set_status(state);
  return WriteMessage(std::move(response));
}

// What the calls of a server share.
struct HealthCalls {
  HealthState& state;
  InFlightLimiter limiter;
  std::atomic<int> waiting = 0;  // for their request
};

// Handles Check, which sends the state once, and Watch, which sends the state
// and each change until the client cancels. Limits the wait for the request.
// Otherwise, clients without a token could keep incomplete requests of up to
// --max-message-bytes in gRPC's buffers.
class HealthCall final : public CallHandler, public Observer {
 public:
  HealthCall(HealthCalls& calls, Call& call, bool watches)
      : calls_(calls), call_(call), watches_(watches) {}
  ~HealthCall() override {
    if (watch_.has_value()) calls_.state.watchers().Remove(*watch_);
  }

  void OnArrival() override {
    const MutexLock lock(mutex_);
    const std::string client =
        NetworkOf(AddressOf(call_.context().peer()), kIpv6Prefix);
    if (const Status full = calls_.limiter.Admit(client, slot_); !full.ok()) {
      const AdmissionLimits& limits = calls_.limiter.limits();
      return call_.Finish(ResourceExhausted(
          "TOO_MANY_OPEN_CALLS", "",
          StrCat("too many open health calls (limit ", limits.calls, ", or ",
                 limits.client_calls, " from one client address)")));
    }
    is_waiting_ = true;
    const auto patience =
        ++calls_.waiting <= kMaxPatient ? kPatience : kImpatience;
    alarm_.Set(&call_.loop().queue(),
               std::chrono::system_clock::now() + patience,
               alarm_tag_.For({call_.shared_from_this(), this}));
    call_.Read();
  }

  void OnRead(bool ok, grpc::ByteBuffer& message) override {
    const MutexLock lock(mutex_);
    if (!StopWaiting()) return;
    if (!ok) return call_.Finish(MissingMessage());
    const size_t bytes = message.Length();
    if (bytes > kMaxHealthBytes) {
      return call_.Finish(
          ResourceExhausted("MESSAGE_TOO_LARGE", "",
                            StrCat("a message of ", bytes,
                                   " bytes exceeds the limit of this method, ",
                                   kMaxHealthBytes, " bytes")));
    }
    if (IsCompressed(message)) {
      // The content is too small to count as in flight.
      const auto no_charge = [](Size) { return Status(); };
      const Status status = Decompress(message, kMaxHealthBytes,
                                       "the limit of this method", no_charge);
      if (!status.ok()) return call_.Finish(status);
    }
    HealthCheckRequest request;
    if (Status s = ReadMessage(message, request); !s.ok())
      return call_.Finish(s);
    has_name_ = calls_.state.Has(request.service());
    if (watches_) {
      watch_ = calls_.state.watchers().Add(
          std::shared_ptr<Observer>(call_.shared_from_this(), this));
      return SendChange();
    }
    if (!has_name_) {
      return call_.Finish(
          {Code::kNotFound, "SERVICE_UNKNOWN", "service",
           StrCat("the server has no service ", Quote(request.service()))});
    }
    call_.Finish(ResponseOf(State()));
  }

  void OnChange() override {
    const MutexLock lock(mutex_);
    SendChange();
  }

  void OnWritten(bool ok) override {
    const MutexLock lock(mutex_);
    is_sending_ = false;
    if (ok) SendChange();
  }

 private:
  void OnAlarm(bool) {
    const MutexLock lock(mutex_);
    if (!StopWaiting()) return;
    call_.Finish({Code::kDeadlineExceeded, "MESSAGE_LATE", "",
                  "the request message did not arrive in time"});
  }

  // If the call is waiting for its request, cancels alarm_ and returns true.
  bool StopWaiting() TOPK_REQUIRES(mutex_) {
    if (!std::exchange(is_waiting_, false)) return false;
    --calls_.waiting;
    alarm_.Cancel();
    return true;
  }

  HealthCheckResponse::ServingStatus State() const TOPK_REQUIRES(mutex_) {
    return !has_name_               ? HealthCheckResponse::SERVICE_UNKNOWN
           : calls_.state.serving() ? HealthCheckResponse::SERVING
                                    : HealthCheckResponse::NOT_SERVING;
  }

  void SendChange() TOPK_REQUIRES(mutex_) {
    if (is_sending_) return;
    const auto state = State();
    if (state == sent_) return;
    sent_ = state;
    is_sending_ = true;
    call_.Write(ResponseOf(state));
  }

  HealthCalls& calls_;
  Call& call_;
  const bool watches_;
  OwningTag<HealthCall, &HealthCall::OnAlarm> alarm_tag_;  // of alarm_
  std::optional<Observers::Entry> watch_;  // set once, by OnRead()
  InFlightLimiter::Slot slot_;             // set once, by OnArrival()
  Mutex mutex_;
  grpc::Alarm alarm_ TOPK_GUARDED_BY(mutex_);
  bool is_waiting_ TOPK_GUARDED_BY(mutex_) = false;  // for the request
  bool has_name_ TOPK_GUARDED_BY(mutex_) = false;    // the service exists
  bool is_sending_ TOPK_GUARDED_BY(mutex_) = false;
  HealthCheckResponse::ServingStatus sent_ TOPK_GUARDED_BY(mutex_) =
      HealthCheckResponse::UNKNOWN;
};

}  // namespace

void AddHealthMethods(HealthState& state, int64_t max_calls,
                      CallRouter& router) {
  const AdmissionLimits limits = {.calls = max_calls,
                                  .client_calls = max_calls / 2};
  const std::shared_ptr<HealthCalls> calls(
      new HealthCalls{state, InFlightLimiter(limits)});
  for (const bool watches : {false, true}) {
    router.Add(StrCat("/", kHealthService, watches ? "/Watch" : "/Check"),
               [calls, watches](Call& call) {
                 return std::make_unique<HealthCall>(*calls, call, watches);
               });
  }
}

}  // namespace topk
