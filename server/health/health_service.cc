#include "server/health/health_service.h"

#include <array>
#include <utility>
#include <vector>

#include "server/calls/raw_message.h"

namespace topk {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr std::array<const char*, 2> kHealthPaths = {
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"};

grpc::ByteBuffer ResponseOf(HealthCheckResponse::ServingStatus state) {
  HealthCheckResponse response;
  response.set_status(state);
  return WriteMessage(std::move(response));
}

}  // namespace

// A call with one request.
class HealthService::HealthCall : public AuxiliaryCall {
 protected:
  HealthCall(HealthService& health, EventLoop& loop,
             const AuxiliaryMethod& method)
      : AuxiliaryCall(loop, method), health_(health) {}

  // The request names a service that exists or not.
  virtual void Answer(bool has_name) = 0;

  HealthService& health_;

 private:
  void Received(grpc::ByteBuffer& message) final {
    HealthCheckRequest request;
    if (Status s = ReadMessage(message, request); !s.ok()) return Finish(s);
    Answer(health_.state_.Has(request.service()));
  }

  void ReceivedAll() final { Finish(MissingMessage()); }
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
