// The life cycle of one call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "server/admission/admission_controller.h"
#include "server/calls/event_loop.h"
#include "server/calls/raw_service.h"
#include "server/calls/topk_service.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// The base of all calls: one stream of messages in each direction. Owned by
/// its pending completion tags and by the jobs that work on it.
class Call : public EventSource, public std::enable_shared_from_this<Call> {
 public:
  /// The service and the loop outlive it.
  Call(TopKService& service, EventLoop& loop, RawMethod method);
  virtual ~Call();

  /// Requests the next call from gRPC. Call it once, on an object that a
  /// shared_ptr owns.
  void Wait();

 protected:
  /// Called when the call has arrived. It must make another object wait for the
  /// next call.
  virtual void Accept() = 0;
  /// Called when a read has finished, with a message, or with `ok` false after
  /// the client's last message.
  virtual void Received(bool ok, grpc::ByteBuffer& message) = 0;
  /// Called when a write has finished; `ok` is false if the client
  /// disconnected.
  virtual void Sent(bool ok) { (void)ok; }
  /// Records a call that FinishIncomplete() has ended.
  virtual void RecordIncomplete(const Status& status);

  /// Starts a read; Received() follows. The base class starts the first read.
  /// At most one read is in flight.
  void Read();
  /// Starts a write; Sent() follows. At most one write is in flight.
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
        nanoseconds, [self = shared_from_this(), work](WorkQueue::Job& job) {
          work(job);
          return self->CheckAlive().ok();
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
  grpc::ServerContext context_;

 private:
  void Arrive(bool ok);
  void StartRead();
  void ContinueTrace();
  void ReturnTrace();
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
  std::string trace_parent_;  // until it is sent
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
