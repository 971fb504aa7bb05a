#include "server/health/health_service.h"

#include <utility>

#include "server/calls/event_loop.h"

namespace topk {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthService::CheckCall final : private EventSource {
 public:
  CheckCall(HealthService& health, EventLoop& loop)
      : EventSource(loop), health_(health) {
    health.rpc_.RequestCheck(&context_, &request_, &responder_, &loop.queue(),
                             &loop.queue(), arrived_.Tag());
  }

 private:
  void Arrive(bool ok) {
    if (!ok) return Finish(false);  // the server shuts down
    new CheckCall(health_, loop_);
    if (!health_.state_.Has(request_.service())) {
      responder_.FinishWithError(
          {grpc::StatusCode::NOT_FOUND, "no such service"}, finished_.Tag());
      return;
    }
    responder_.Finish(health_.state_.Answer(request_.service()),
                      grpc::Status::OK, finished_.Tag());
  }
  void Finish(bool) { delete this; }

  HealthService& health_;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<HealthCheckResponse> responder_{&context_};
  EventOf<CheckCall, &CheckCall::Arrive> arrived_{this};
  EventOf<CheckCall, &CheckCall::Finish> finished_{this};
};

// Sends the state, and again when it has changed, until the client goes.
class HealthService::WatchCall final : private EventSource,
                                       private HealthState::Watcher {
 public:
  WatchCall(HealthService& health, EventLoop& loop)
      : EventSource(loop), health_(health) {
    context_.AsyncNotifyWhenDone(ended_.Tag());
    health.rpc_.RequestWatch(&context_, &request_, &writer_, &loop.queue(),
                             &loop.queue(), arrived_.Tag());
  }

 private:
  void Send() override {
    const HealthCheckResponse answer =
        health_.state_.Answer(request_.service());
    if (busy_ || over_ || answer.status() == sent_) return;
    sent_ = answer.status();
    busy_ = true;
    writer_.Write(answer, written_.Tag());
  }

  void Arrive(bool ok) {
    if (!ok) {  // the server shuts down; `ended_` does not come for such
      delete this;
      return;
    }
    new WatchCall(health_, loop_);
    std::unique_lock lock(health_.state_.mutex());
    busy_ = false;
    if (over_) return FinishOnceIdle(std::move(lock));
    health_.state_.Add(this);
    Send();
  }

  void Written(bool ok) {
    std::unique_lock lock(health_.state_.mutex());
    busy_ = false;
    if (ok && !over_) return Send();
    FinishOnceIdle(std::move(lock));
  }

  void End(bool) {
    std::unique_lock lock(health_.state_.mutex());
    over_ = true;
    FinishOnceIdle(std::move(lock));
  }

  void FinishOnceIdle(std::unique_lock<std::mutex> lock) {
    if (!over_ || busy_) return;
    health_.state_.Remove(this);
    lock.unlock();
    delete this;
  }

  HealthService& health_;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  grpc::ServerAsyncWriter<HealthCheckResponse> writer_{&context_};
  HealthCheckResponse::ServingStatus sent_ = HealthCheckResponse::UNKNOWN;
  // Arriving, or writing: until then it must not go.
  bool busy_ = true;
  bool over_ = false;
  EventOf<WatchCall, &WatchCall::Arrive> arrived_{this};
  EventOf<WatchCall, &WatchCall::Written> written_{this};
  EventOf<WatchCall, &WatchCall::End> ended_{this};
};

void HealthService::Start(EventLoop& loop) {
  new CheckCall(*this, loop);
  new WatchCall(*this, loop);
}

HealthState::HealthState(std::set<std::string> names)
    : names_(std::move(names)) {}

void HealthState::Stop() {
  const std::lock_guard lock(mutex_);
  serving_ = false;
  for (Watcher* watcher : watchers_) watcher->Send();
}

HealthCheckResponse HealthState::Answer(const std::string& name) const {
  HealthCheckResponse answer;
  answer.set_status(!Has(name) ? HealthCheckResponse::SERVICE_UNKNOWN
                    : serving_ ? HealthCheckResponse::SERVING
                               : HealthCheckResponse::NOT_SERVING);
  return answer;
}

}  // namespace topk
