// A call of a service that computes: admitted, traced, recorded, cancelled.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "server/admission/admission_controller.h"
#include "server/calls/call.h"
#include "server/calls/event_loop.h"
#include "server/calls/method.h"
#include "server/calls/topk_service.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/call_span.h"

namespace topk {

/// The base of the calls of topk.v1 and of the Open Inference Protocol.
class ServiceCall : public Call, private OpenStream {
 public:
  /// kMany is a stream whose messages are requests, each with its own span.
  enum class Kind { kUnary, kStream, kMany };

  /// The service, the loop and the method must outlive the call.
  ServiceCall(TopKService& service, EventLoop& loop, const CallMethod& method,
              Kind kind = Kind::kUnary);
  ~ServiceCall() override;

 protected:
  /// Records a call that FinishIncomplete() has ended.
  virtual void RecordIncomplete(const Status& status);
  void OnWritten(bool ok) override { (void)ok; }
  /// Ends a stream that would not be admitted now. UNAVAILABLE while the server
  /// drains: what has begun may finish. Called by any thread, any number of
  /// times.
  virtual void Interrupt(const Status& status) { (void)status; }

  /// Starts a read; OnRead() follows. The first read starts once the call is
  /// admitted.
  void Read();
  /// Starts a write; OnWritten() follows.
  void Write(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  /// Ends the call with a last message or with a status. Call it once.
  void Finish(const grpc::ByteBuffer& last);
  void Finish(const Status& status);
  /// Ends the call with an error and records it, before any work on it has
  /// started.
  void Refuse(const Status& status);
  /// Ends a call whose messages ended too early. The cause may be the client, a
  /// cancellation or the deadline. RecordIncomplete() follows once the cause is
  /// known, with `status`, CANCELLED or DEADLINE_EXCEEDED.
  void FinishIncomplete(const Status& status);

  /// Enqueues work(job) for a worker and keeps the call alive until it returns.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work) {
    service_.work().Enqueue(
        admitted_.caller.key, nanoseconds,
        [this, self = shared_from_this(), work](WorkQueue::Job& job) {
          work(job);
          return CheckAlive().ok();
        });
  }

  /// Returns OK while the client waits for the call, else CANCELLED or
  /// DEADLINE_EXCEEDED.
  Status CheckAlive() const;

  /// Replaces CANCELLED with its cause (deadline or cancellation).
  Status WithCancelCause(const Status& status) const {
    return status.code == Code::kCancelled ? CheckAlive() : status;
  }

  /// Cancelled when the client disconnects or cancels, or the deadline expires.
  const Cancellation& cancellation() const { return cancellation_; }

  /// The data that all requests of the call share. Valid once the call has
  /// arrived.
  const CallInfo& info() const { return info_; }

  /// The caller and its reservation.
  AdmittedCall& admitted() { return admitted_; }

  TopKService& service_;

 private:
  void OnArrival() final;
  void Recheck() final;
  void OnEnd() final;
  void ContinueTrace();
  void ReturnTrace();
  void SendStatus(const Status& status);
  void ReportIncomplete();
  void RecordEnd(const Status& status);

  const char* const path_;
  const Kind kind_;
  std::optional<OpenCalls::Streams::iterator> stream_;
  int reads_ = 0;
  CallInfo info_;
  std::string trace_parent_;  // until it is sent
  AdmittedCall admitted_;
  std::unique_ptr<CallSpan> span_;  // null unless the call is sampled
  Cancellation cancellation_;
  bool arrived_ = false;
  std::atomic<bool> revoked_ = false;  // found by a recheck
  Status incomplete_;
  std::atomic<int> ends_ = 0;  // of FinishIncomplete() and of the call
};

}  // namespace topk
