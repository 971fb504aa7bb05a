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
    if (entry_.has_value()) state_.open_calls.streams(many_).Remove(*entry_);
  }

 protected:
  /// Ends the stream with `status`, also for the error that a new call from the
  /// same caller would get now. May be called repeatedly, from any thread.
  void Interrupt(const Status& status, bool drains) override = 0;

 private:
  using Time = AdmissionController::Time;
  // How long a caller whose credentials have expired can read responses.
  static constexpr std::chrono::seconds kToRead{1};

  void OnArrival() final {
    ServiceCall::OnArrival();
    if (!info_.slot.is_taken()) return;
    entry_ = state_.open_calls.streams(many_).Add(
        std::shared_ptr<Observer>(call_.shared_from_this(), this));
    OnChange();  // in case of a change since AdmitCall()
  }

  void OnChange() final {
    const Status caller = state_.admission.CheckCaller(info_);
    const bool drains = caller.ok();
    const Status status =
        drains ? state_.admission.CheckOpen(many_ ? info_.arrived : Time::max())
               : caller;
    if (status.ok()) return;
    Interrupt(status, drains);
    if (drains) return;  // a drain has its own timeout
    // Interrupt() cannot end the stream of a client that does not read
    // responses, so cancel the call if it is still open after kToRead.
    const Time now = Time::clock::now();
    Time first = Time::max();
    if (!revoked_.compare_exchange_strong(first, now) &&
        now - first > kToRead) {
      call_.context().TryCancel();
    }
  }

  std::optional<Observers::Entry> entry_;
  // When CheckCaller() failed first.
  std::atomic<Time> revoked_ = Time::max();
};

}  // namespace topk
