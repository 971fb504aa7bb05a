// The life cycle of one call of any service.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <optional>

#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/calls/method.h"
#include "server/calls/raw_service.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// The base of all calls: one stream of messages in each direction. Owned by
/// its pending completion tags, and by the jobs that work on it, so that any
/// number of pollers may handle the tags in any order.
class Call : public EventSource, public std::enable_shared_from_this<Call> {
 public:
  /// The loop and the method outlive it.
  Call(EventLoop& loop, const CallMethod& method)
      : EventSource(loop), method_(method) {}
  virtual ~Call() = default;

  /// Requests the next call from gRPC. Call it once, on an object that a
  /// shared_ptr owns.
  void Wait();

 protected:
  /// Returns a new object for the next call of the method.
  virtual std::shared_ptr<Call> Next() const = 0;

  // Pollers call the following, several at the same time if they are in flight.

  /// The call has arrived, and the next one is waited for.
  virtual void OnArrival() = 0;
  /// A read has finished, with a message, or with `ok` false after the client's
  /// last message.
  virtual void OnRead(bool ok, grpc::ByteBuffer& message) = 0;
  /// A write has finished; `ok` is false if the client disconnected.
  virtual void OnWritten(bool ok) = 0;
  /// The status was sent, or could not be sent.
  virtual void OnFinished(bool ok) { (void)ok; }
  /// The call has ended, whoever ended it; perhaps before OnArrival().
  virtual void OnEnd() = 0;

  /// Start an operation: at most one read and one write at a time, and nothing
  /// after StartFinish().
  void StartRead();
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  void StartFinish(const grpc::Status& status);
  /// Finishes with a last message and OK.
  void StartFinish(const grpc::ByteBuffer& last);

  /// The client's deadline; the end of the clock's range if it is later.
  std::chrono::system_clock::time_point Deadline() const;

  /// Whether the client's deadline has passed, as far as this end can tell.
  bool PastDeadline() const;

  /// Counts the call, since OnArrival().
  const RpcCount& count() const { return *count_; }

  grpc::GenericServerContext context_;

 private:
  void Arrived(bool ok);
  void Read(bool ok);
  void Written(bool ok) { OnWritten(ok); }
  void Finished(bool ok) { OnFinished(ok); }
  void Ended(bool) { OnEnd(); }

  const CallMethod& method_;
  RawStream stream_{&context_};
  grpc::ByteBuffer incoming_;
  std::optional<RpcCount> count_;
  bool has_written_ = false;
  OwningTag<Call, &Call::Arrived> arrived_;
  OwningTag<Call, &Call::Read> read_;
  OwningTag<Call, &Call::Written> written_;
  OwningTag<Call, &Call::Finished> finished_;
  OwningTag<Call, &Call::Ended> ended_;
};

/// The status of a call that ended before its message.
Status MissingMessage();

}  // namespace topk
