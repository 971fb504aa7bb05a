// Ends streams whose callers may no longer use the service.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <optional>

#include "server/calls/observers.h"
#include "server/calls/service_call.h"
#include "topk/status.h"

namespace topk {

/// The base class for calls that receive a stream of messages. While the stream
/// is open, its caller's credentials may expire, and a drain may begin.
class StreamingCall : public ServiceCall, private Observer {
 public:
  using ServiceCall::ServiceCall;
  ~StreamingCall() override {
    if (entry_.has_value()) state_.open_calls.streams().Remove(*entry_);
  }

 protected:
  void OnMessage(bool ok, grpc::ByteBuffer& message) override = 0;
  /// Ends the stream with `status`, also for the error that a new call from the
  /// same caller would get now. UNAVAILABLE means that the server is draining,
  /// and work that has begun may finish. May be called repeatedly, from any
  /// thread.
  void Interrupt(const Status& status) override = 0;

 private:
  void OnAdmitted() final {
    entry_ = state_.open_calls.streams().Add(
        std::shared_ptr<Observer>(call_.shared_from_this(), this));
    OnChange();  // in case of a change since AdmitCall()
  }

  void OnChange() final {
    const Status status = state_.admission.CheckAdmitted(info_);
    if (status.ok()) return;
    Interrupt(status);
    // If CheckAdmitted() fails again later, cancel the call, because
    // Interrupt() cannot end the stream of a client that does not read
    // responses. Do not cancel the call during a drain, because a drain has its
    // own timeout.
    const bool drains = status.code == Code::kUnavailable;
    if (!drains && revoked_.exchange(true)) call_.context().TryCancel();
  }

  std::optional<Observers::Entry> entry_;
  std::atomic<bool> revoked_ = false;  // set by OnChange()
};

}  // namespace topk
