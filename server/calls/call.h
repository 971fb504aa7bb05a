// One call, from its arrival to its end.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <optional>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "server/admission/admission_controller.h"
#include "server/calls/event_loop.h"
#include "server/calls/raw_service.h"
#include "server/calls/topk_service.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// The base of all calls: a stream of messages in, one out. Owned by the
/// events that gRPC has still to return and by the jobs that work on it.
class Call : public EventSource, public std::enable_shared_from_this<Call> {
 public:
  /// The service and the loop outlive it.
  Call(TopKService& service, EventLoop& loop, RawMethod method);
  virtual ~Call();

  /// Waits for a call. Once, on an object that a shared_ptr owns.
  void Wait();

 protected:
  /// The call is here: lets another one wait.
  virtual void Accept() = 0;
  /// A read has ended: with a message, or not `ok`, with the client's last.
  virtual void Received(bool ok, grpc::ByteBuffer& message) = 0;
  /// A write has ended; not `ok` if the client has gone.
  virtual void Sent(bool ok) { (void)ok; }
  /// Records a call that FinishIncomplete() has ended.
  virtual void RecordIncomplete(const Status& status);

  /// Begins to read; Received() follows. The first read is begun already. One
  /// at a time.
  void Read();
  /// Begins to write; Sent() follows. One at a time.
  void Write(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  /// Ends the call, with a last message or with a status. Once.
  void Finish(const grpc::ByteBuffer& last);
  void Finish(const Status& status);
  /// The same, and records it, before any work on it has begun.
  void Refuse(const Status& status);
  /// The same for a call whose messages ended too early, which the client may
  /// have done or its end: RecordIncomplete() follows once that is known, with
  /// the status, or with CANCELLED or DEADLINE_EXCEEDED if that is why.
  void FinishIncomplete(const Status& status);

  /// Has a worker call work(job), and keeps the call alive until then. `work`
  /// returns as WorkQueue::Enqueue() asks.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work) {
    service_.work().Enqueue(
        nanoseconds, [self = shared_from_this(), work](WorkQueue::Job& job) {
          work(job);
          return self->CheckAlive().ok();
        });
  }

  /// Returns OK while the client waits; CANCELLED, or DEADLINE_EXCEEDED if that
  /// is why, once it does not.
  Status CheckAlive() const;

  /// Returns the status; instead of CANCELLED its cause.
  Status WithCancelCause(const Status& status) const {
    return status.code == Code::kCancelled ? CheckAlive() : status;
  }

  /// Cancelled when the client has gone or the deadline has passed.
  const Cancellation& cancellation() const { return cancellation_; }

  /// What its requests share. There once the call is.
  const CallInfo& info() const { return info_; }

  /// Who calls, and what that takes of the server.
  AdmittedCall& admitted() { return admitted_; }

  TopKService& service_;
  grpc::ServerContext context_;

 private:
  void Arrive(bool ok);
  void StartRead();
  void ContinueTrace();
  void End(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool) {}
  void SendStatus(const Status& status);
  void ReportIncomplete();

  const RawMethod kind_;
  RawStream stream_{&context_};
  grpc::ByteBuffer incoming_;
  int reads_ = 0;
  CallInfo info_;
  AdmittedCall admitted_;
  Cancellation cancellation_;
  const RpcMetrics::Method& method_;
  std::optional<RpcCount> count_;
  Status incomplete_;
  std::atomic<int> ends_ = 0;  // of FinishIncomplete() and of the call
  OwningTag<Call, &Call::Arrive> arrived_;
  OwningTag<Call, &Call::End> ended_;
  OwningTag<Call, &Call::OnRead> read_;
  OwningTag<Call, &Call::OnWritten> written_;
  OwningTag<Call, &Call::OnFinished> finished_;
};

}  // namespace topk
