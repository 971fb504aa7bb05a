// The life cycle of one call of any service.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

class CallRouter;

/// Handles the events of one call. Pollers call the functions, several at the
/// same time if several operations are in flight.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// Called first, before any other function.
  virtual void OnArrival() = 0;
  /// A read has finished, with a message, or with `ok` false after the client's
  /// last message.
  virtual void OnRead(bool ok, grpc::ByteBuffer& message) = 0;
  /// A write has finished; `ok` is false if the client has disconnected.
  virtual void OnWritten(bool ok) { (void)ok; }
  /// The call has ended, whoever ended it. Called once, after OnArrival().
  virtual void OnEnd() {}
  /// Records the status that the call ends with. Called once.
  virtual void RecordEnd(const Status& status) { (void)status; }
  /// Records a call that FinishIncomplete() has ended, before RecordEnd().
  virtual void RecordIncomplete(const Status& status) { (void)status; }
};

/// One call: a stream of messages, as bytes, in each direction. On the wire a
/// unary call is a stream with one message in each direction. gRPC delivers a
/// stream with its headers, so that the server decides when to read the
/// message. Owned by its pending completion tags, and by the jobs that work on
/// it, so that any number of pollers may handle the tags in any order.
class Call final : public EventSource,
                   public std::enable_shared_from_this<Call> {
 public:
  /// The loop and the router must outlive the call.
  Call(EventLoop& loop, CallRouter& router)
      : EventSource(loop), router_(router) {}

  /// Waits for a call to arrive; its handler then takes over, and another Call
  /// waits. Call it once, on an object that a shared_ptr owns.
  void Wait();

  /// Start an operation: at most one read and one write at a time, and nothing
  /// after Finish() or FinishIncomplete().
  void Read();
  void Write(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  /// Ends the call with a last message and OK, or with a status. Records the
  /// status first, so that a client that has a response finds it in the
  /// metrics.
  void Finish(const grpc::ByteBuffer& last);
  void Finish(const Status& status);
  /// Ends a call whose messages ended too early. The cause may be the client, a
  /// cancellation or the deadline. Records the status once the cause is known:
  /// `status`, CANCELLED or DEADLINE_EXCEEDED.
  void FinishIncomplete(const Status& status);

  grpc::GenericServerContext& context() { return context_; }
  const grpc::GenericServerContext& context() const { return context_; }
  EventLoop& loop() { return loop_; }
  /// When the call arrived.
  std::chrono::steady_clock::time_point arrived() const {
    return count_->start();
  }
  /// The client's deadline; the end of the clock's range if it is later.
  std::chrono::system_clock::time_point Deadline() const;
  /// Cancelled when the client disconnects or cancels, or the deadline expires.
  const Cancellation& cancellation() const { return cancellation_; }
  /// Returns OK while the client waits for the call, else CANCELLED or
  /// DEADLINE_EXCEEDED.
  Status CheckAlive() const;
  /// Returns the header `traceparent` to the client, with the first message or
  /// with the status. Call it before anything is sent.
  void set_trace_parent(std::string value) { trace_parent_ = std::move(value); }

 private:
  enum class Stage { kWaiting, kArrived, kEnded };

  void OnArrived(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok) { handler_->OnWritten(ok); }
  void OnFinished(bool) {}
  void OnEnded(bool);
  void End();
  void SendTraceParent();
  void SendStatus(const Status& status);
  void RecordEnd(const Status& status);
  void RecordIncomplete();

  CallRouter& router_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;
  std::optional<RpcCount> count_;
  Cancellation cancellation_;
  int reads_ = 0;
  bool has_written_ = false;
  std::string trace_parent_;  // until it is sent
  // The end may be reported before the arrival, on another poller: the later
  // one of the two calls End().
  std::atomic<Stage> stage_ = Stage::kWaiting;
  Status incomplete_;          // of FinishIncomplete()
  std::atomic<int> ends_ = 0;  // FinishIncomplete() and End()
  OwningTag<Call, &Call::OnArrived> arrived_tag_;
  OwningTag<Call, &Call::OnRead> read_tag_;
  OwningTag<Call, &Call::OnWritten> written_tag_;
  OwningTag<Call, &Call::OnFinished> finished_tag_;
  OwningTag<Call, &Call::OnEnded> ended_tag_;
  std::unique_ptr<CallHandler> handler_;  // once the call has arrived
};

/// Returns the status of a call that ended before its message.
Status MissingMessage();

}  // namespace topk
