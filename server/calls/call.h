// Handles one gRPC call of any service.
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
#include "server/telemetry/rpc_metrics.h"
#include "server/threads/event_loop.h"
#include "topk/status.h"

namespace topk {

class CallRouter;

/// Handles the events of one call. Pollers call the functions whose names start
/// with On, and may call them concurrently if several operations are in flight.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// Called before any other function.
  virtual void OnArrival() = 0;
  /// Called when a read finishes. `ok` is false if there are no more messages.
  virtual void OnRead(bool ok, grpc::ByteBuffer& message) = 0;
  /// Called when a write finishes. `ok` is false if the client has
  /// disconnected.
  virtual void OnWritten(bool ok) { (void)ok; }
  /// Records the final status of the call. Called once, by any thread.
  virtual void Record(const Status& status) { (void)status; }
};

/// A gRPC call, which receives and sends raw messages. A unary call has one
/// message in each direction. When a call arrives, gRPC has read only its
/// headers. The server decides when to read each message.
///
/// Pending completion tags and jobs keep the call alive, so pollers may handle
/// the tags in any order. OnEnded() may even run before OnArrived().
class Call final : public std::enable_shared_from_this<Call> {
 public:
  /// `loop` and `router` must outlive the call.
  Call(EventLoop& loop, CallRouter& router)
      : loop_(loop), loop_user_(loop.AddUser()), router_(router) {}
  /// Records the final status unless Finish() has recorded it.
  ~Call();

  /// Requests the next incoming call from gRPC. When a call arrives, lets the
  /// router create more Call objects, then creates the handler. Must be called
  /// once. REQUIRES: a shared_ptr owns this object.
  void Wait();

  /// Starts a read or a write. At most one read and one write may be in flight.
  /// After Finish(), writes are not allowed, and reads finish with `ok` =
  /// false.
  void Read();
  void Write(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  /// Ends the call, either with a last message and OK or with a status. Records
  /// the status before sending it, so that the metrics include every call whose
  /// response the client has received. There is one exception: after a failed
  /// write or the end of the client's messages, the client may have
  /// disconnected, which is known only when the call ends. The destructor then
  /// records CANCELLED or DEADLINE_EXCEEDED if the call was cancelled, and
  /// otherwise `status`.
  void Finish(const grpc::ByteBuffer& last);
  void Finish(const Status& status);

  grpc::GenericServerContext& context() { return context_; }
  EventLoop& loop() { return loop_; }
  /// When the call's headers arrived.
  std::chrono::steady_clock::time_point arrived() const { return arrived_; }
  /// Returns the client's deadline, capped at time_point::max().
  std::chrono::system_clock::time_point Deadline() const;
  /// Signals that the client cancelled or disconnected, or the deadline passed.
  const Cancellation& cancellation() const { return cancellation_; }
  /// Returns OK while the call is active, otherwise CANCELLED or
  /// DEADLINE_EXCEEDED.
  Status CheckAlive() const {
    return cancellation_.cancelled() ? cancel_cause_ : Status();
  }
  /// Sets the `traceparent` header, which is sent with the first message or
  /// with the status. Call before sending anything.
  void set_trace_parent(std::string value) { trace_parent_ = std::move(value); }

 private:
  void OnArrived(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool) {}
  void OnEnded(bool);
  void SendTraceParent();
  void Record(const Status& status);

  EventLoop& loop_;
  const WaitGroup::Member loop_user_;
  CallRouter& router_;
  grpc::GenericServerContext context_;  // modified by the sending thread
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;  // used by the read in flight, then by OnRead()
  Status cancel_cause_;        // set before cancellation_
  Cancellation cancellation_;  // thread-safe
  // These members are set when the call arrives, before other threads use them.
  std::chrono::steady_clock::time_point arrived_;
  const RpcMetrics* metrics_ = nullptr;
  std::unique_ptr<CallHandler> handler_;   // null if the method is unknown
  std::atomic<bool> may_be_gone_ = false;  // a read or a write has failed
  // Used only by the sending thread, and by the destructor.
  bool has_written_ = false;
  bool is_refused_ = false;  // a status without a message was sent
  // The final status, until it is recorded.
  std::optional<Status> unrecorded_ = Status();
  std::string trace_parent_;  // empty once sent
  OwningTag<Call, &Call::OnArrived, /*kMayOvertake=*/true> arrived_tag_;
  OwningTag<Call, &Call::OnRead> read_tag_;
  OwningTag<Call, &Call::OnWritten> written_tag_;
  OwningTag<Call, &Call::OnFinished> finished_tag_;
  OwningTag<Call, &Call::OnEnded> ended_tag_;
};

/// Returns the error for a call that ended without a request message.
Status MissingMessage();

}  // namespace topk
