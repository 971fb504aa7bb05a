// Calls of the services that carry no tensors: health, reflection, and methods
// that do not exist.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/base/status.h"
#include "server/auxiliary/call_limit.h"
#include "server/calls/event_loop.h"
#include "server/calls/raw_service.h"
#include "server/security/authenticator.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Asks gRPC for a call; the tag is returned when it has arrived.
using RequestFunction =
    std::function<void(grpc::GenericServerContext&, RawStream&,
                       grpc::ServerCompletionQueue&, void* tag)>;

/// Returns the function for calls of a registered method.
RequestFunction RequestsOf(RawMethod method);

/// A method of a service that carries no tensors. It outlives its calls.
struct AuxiliaryMethod {
  /// Asks for its calls.
  RequestFunction request;
  /// Where its calls are counted.
  const RpcMetrics::Method& series;
  /// Null: open to everyone.
  const Authenticator* authenticator = nullptr;
  /// Null: any number of open calls.
  CallLimit* limit = nullptr;
};

/// One call, from its arrival to its end: small messages in each direction.
/// Owned by the completion tags that gRPC has still to return, so that any
/// number of pollers may handle them in any order.
class AuxiliaryCall : private EventSource,
                      public std::enable_shared_from_this<AuxiliaryCall> {
 public:
  /// Both outlive it.
  AuxiliaryCall(EventLoop& loop, const AuxiliaryMethod& method)
      : EventSource(loop), method_(method) {}
  virtual ~AuxiliaryCall() = default;

  /// Waits for a call. Call it once, on an object that a shared_ptr owns.
  void Wait();

  /// The largest message, in bytes. Names are much shorter, and protobuf takes
  /// time by the square of their length to find that a pool lacks them.
  static constexpr size_t kMaxMessageBytes = 1024;

 protected:
  /// Returns a new object for the next call of the method.
  virtual std::shared_ptr<AuxiliaryCall> Next(EventLoop& loop) const = 0;

  // The following are called with the mutex locked.

  /// The call was admitted: by default, reads the first message.
  virtual void Begin() { Read(); }
  /// A message was received, of at most kMaxMessageBytes.
  virtual void Received(grpc::ByteBuffer& message) = 0;
  /// The client will send no more messages.
  virtual void ReceivedAll() = 0;
  /// The last message was sent.
  virtual void Sent() {}
  /// The call has ended; no operation may start any more.
  virtual void Ended() {}

  // The following need the mutex to be locked and the call not to have ended.
  // One read and one write at a time; nothing after Finish().

  /// Starts to read a message; Received() or ReceivedAll() follows.
  void Read();
  /// Starts to send a message; Sent() follows.
  void Write(const grpc::ByteBuffer& message);
  /// Ends the call with a status, or with a last message and OK.
  void Finish(const Status& status);
  void Finish(const grpc::ByteBuffer& last);

  const AuxiliaryMethod& method() const { return method_; }

  /// Guards the state of the call.
  std::mutex& mutex() { return mutex_; }

 private:
  void OnArrival(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnEnd(bool ok);

  Status Admit();
  void StartFinish(int code);
  int CancelCode() const;

  const AuxiliaryMethod& method_;
  std::mutex mutex_;
  grpc::GenericServerContext context_;
  RawStream stream_{&context_};
  grpc::ByteBuffer incoming_;
  CallLimit::Slot slot_;
  std::optional<RpcCount> count_;
  int code_ = 0;
  bool finished_ = false;
  bool read_failed_ = false;
  bool ended_ = false;
  OwningTag<AuxiliaryCall, &AuxiliaryCall::OnArrival> arrival_;
  OwningTag<AuxiliaryCall, &AuxiliaryCall::OnRead> read_;
  OwningTag<AuxiliaryCall, &AuxiliaryCall::OnWritten> written_;
  OwningTag<AuxiliaryCall, &AuxiliaryCall::OnFinished> finish_;
  OwningTag<AuxiliaryCall, &AuxiliaryCall::OnEnd> end_;
};

}  // namespace topk
