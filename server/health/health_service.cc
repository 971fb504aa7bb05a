#include "server/health/health_service.h"

#include <grpcpp/alarm.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "server/calls/raw_message.h"
#include "server/calls/write_message.h"

namespace topk {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How long a call may wait for its message: kPatience if at most kMaxPatient
// calls do, so that these cannot hold much memory, else kImpatience. Clients
// send the message with the call.
constexpr int kMaxPatient = 2;
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(10);
constexpr std::chrono::milliseconds kImpatience{250};

constexpr std::array<const char*, 2> kHealthPaths = {
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"};

grpc::ByteBuffer ResponseOf(HealthCheckResponse::ServingStatus state) {
  HealthCheckResponse response;
  response.set_status(state);
  return WriteMessage(std::move(response));
}

}  // namespace

// A call with one request, which must arrive in time: health calls need no
// token, and gRPC keeps the part of a message that has arrived, up to
// --max-message-bytes.
class HealthService::HealthCall : public AuxiliaryCall {
 protected:
  HealthCall(HealthService& health, EventLoop& loop,
             const AuxiliaryMethod& method)
      : AuxiliaryCall(loop, method), health_(health) {}

  // The request names a service that exists or not.
  virtual void Answer(bool has_name) = 0;

  void Ended() override { StopWaiting(); }

  HealthService& health_;

 private:
  void Begin() final {
    is_waiting_ = true;
    const auto patience =
        ++health_.waiting_ <= kMaxPatient ? kPatience : kImpatience;
    alarm_.Set(&loop_.queue(), std::chrono::system_clock::now() + patience,
               alarm_tag_.For({shared_from_this(), this}));
    Read();
  }

  void Received(grpc::ByteBuffer& message) final {
    StopWaiting();
    HealthCheckRequest request;
    if (Status s = ReadMessage(message, request); !s.ok()) return Finish(s);
    Answer(health_.state_.Has(request.service()));
  }

  void ReceivedAll() final {
    StopWaiting();
    Finish(MissingMessage());
  }

  void OnAlarm(bool) {
    const std::lock_guard lock(mutex());
    if (!is_waiting_) return;
    StopWaiting();
    Finish(Status{Code::kDeadlineExceeded, "MESSAGE_LATE", "",
                  "the request message did not arrive in time"});
  }

  void StopWaiting() {
    if (!std::exchange(is_waiting_, false)) return;
    --health_.waiting_;
    alarm_.Cancel();
  }

  bool is_waiting_ = false;  // for the message
  grpc::Alarm alarm_;
  OwningTag<HealthCall, &HealthCall::OnAlarm> alarm_tag_;
};

class HealthService::CheckCall final : public HealthCall {
 public:
  CheckCall(HealthService& health, EventLoop& loop)
      : HealthCall(health, loop, health.check_) {}

 private:
  std::shared_ptr<Call> Next() const override {
    return std::make_shared<CheckCall>(health_, loop_);
  }

  void Answer(bool has_name) override {
    if (!has_name) {
      return Finish(Status{Code::kNotFound, "SERVICE_UNKNOWN", "service",
                           "the server has no service of this name"});
    }
    Finish(ResponseOf(health_.state_.StateOf(has_name)));
  }
};

// Sends the state, and again when it has changed, until the client cancels.
class HealthService::WatchCall final : public HealthCall,
                                       public HealthState::Watcher {
 public:
  WatchCall(HealthService& health, EventLoop& loop)
      : HealthCall(health, loop, health.watch_) {}

 private:
  std::shared_ptr<Call> Next() const override {
    return std::make_shared<WatchCall>(health_, loop_);
  }

  void Answer(bool has_name) override {
    has_name_ = has_name;
    watching_ = true;
    health_.state_.Add(AsWatcher());
    SendChange();
  }

  void OnChange() override {
    const std::lock_guard lock(mutex());
    SendChange();
  }

  void Sent() override {
    sending_ = false;
    SendChange();
  }

  void Ended() override {
    if (watching_) health_.state_.Remove(AsWatcher());
    watching_ = false;
    HealthCall::Ended();
  }

  void SendChange() {
    if (!watching_ || sending_) return;
    const auto state = health_.state_.StateOf(has_name_);
    if (state == sent_) return;
    sent_ = state;
    sending_ = true;
    Write(ResponseOf(state));
  }

  std::shared_ptr<Watcher> AsWatcher() { return {shared_from_this(), this}; }

  bool has_name_ = false;
  bool watching_ = false;
  bool sending_ = false;
  HealthCheckResponse::ServingStatus sent_ = HealthCheckResponse::UNKNOWN;
};

HealthService::HealthService(HealthState& state, const RpcMetrics& metrics)
    : state_(state),
      rpc_(kHealthPaths),
      check_{MethodOf(rpc_, 0, metrics), nullptr, &limit_},
      watch_{MethodOf(rpc_, 1, metrics), nullptr, &limit_} {}

void HealthService::Start(EventLoop& loop) {
  std::make_shared<CheckCall>(*this, loop)->Wait();
  std::make_shared<WatchCall>(*this, loop)->Wait();
}

HealthState::HealthState(std::set<std::string> names)
    : names_(std::move(names)) {}

HealthCheckResponse::ServingStatus HealthState::StateOf(bool has_name) const {
  return !has_name  ? HealthCheckResponse::SERVICE_UNKNOWN
         : serving_ ? HealthCheckResponse::SERVING
                    : HealthCheckResponse::NOT_SERVING;
}

void HealthState::Stop() {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
    watchers.assign(watchers_.begin(), watchers_.end());
  }
  // Without the lock: each locks its call, which locks this.
  for (const auto& watcher : watchers) watcher->OnChange();
}

void HealthState::Add(std::shared_ptr<Watcher> watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.insert(std::move(watcher));
}

void HealthState::Remove(const std::shared_ptr<Watcher>& watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(watcher);
}

}  // namespace topk
