// Calls of the services that carry no tensors: health, reflection, and methods
// that do not exist.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <mutex>

#include "core/base/status.h"
#include "server/auxiliary/call_limit.h"
#include "server/calls/call.h"
#include "server/calls/event_loop.h"
#include "server/calls/method.h"
#include "server/security/authenticator.h"

namespace topk {

/// A method of a service that carries no tensors.
struct AuxiliaryMethod : CallMethod {
  /// Null: open to everyone.
  const Authenticator* authenticator = nullptr;
  /// Null: any number of open calls.
  CallLimit* limit = nullptr;
};

/// One call, from its arrival to its end: small messages in each direction. It
/// handles one event at a time.
class AuxiliaryCall : public Call {
 public:
  /// Both outlive it.
  AuxiliaryCall(EventLoop& loop, const AuxiliaryMethod& method)
      : Call(loop, method), method_(method) {}

  /// The largest message, in bytes. Names are much shorter, and protobuf takes
  /// time by the square of their length to find that a pool lacks them.
  static constexpr size_t kMaxMessageBytes = 1024;

 protected:
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
  void Read() { StartRead(); }
  /// Starts to send a message; Sent() follows.
  void Write(const grpc::ByteBuffer& message) { StartWrite(message, {}); }
  /// Ends the call with a status, or with a last message and OK.
  void Finish(const Status& status);
  void Finish(const grpc::ByteBuffer& last);

  const AuxiliaryMethod& method() const { return method_; }

  /// Guards the state of the call.
  std::mutex& mutex() { return mutex_; }

 private:
  void OnArrival() final;
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void OnWritten(bool ok) final;
  void OnFinished(bool ok) final;
  void OnEnd() final;

  Status Admit();
  void NoteStatus(int code);
  int CancelCode() const;

  const AuxiliaryMethod& method_;
  std::mutex mutex_;
  CallLimit::Slot slot_;
  int code_ = 0;
  bool arrived_ = false;
  bool finished_ = false;
  bool read_failed_ = false;
  bool ended_ = false;
};

}  // namespace topk
