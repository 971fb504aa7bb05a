// What StreamTopK and ComputeTopKMany have in common: messages that wait, one
// write at a time.
#pragma once

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "server/call.h"
#include "server/intake.h"

namespace topk {

/// A call that reads on while what it has read is worked on.
class StreamingCall : public Call {
 protected:
  using Call::Call;

  /// Messages of so many bytes wait, and nobody works on them: the derived
  /// class does so, here or on another thread, until Take() gives nothing.
  virtual void Work(int64_t bytes) = 0;
  /// A write has ended; not `ok` if the client has gone.
  virtual void Sent(bool ok) = 0;

  /// Begins to read.
  void Read();
  /// Takes what waits: see Intake::Take().
  Intake::Taken Take(std::vector<grpc::ByteBuffer>& messages);
  /// Begins to write; Sent() follows. One at a time.
  void Write(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  /// Ends the call, with a last message or without one; nothing is read or
  /// worked on from now on. Once.
  void WriteAndFinish(const grpc::ByteBuffer& message);
  void Finish(const Status& status);

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{
      &context_};

 private:
  void Begin() override { Read(); }
  void Refuse(const Status& status) override { Finish(status); }
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);

  grpc::ByteBuffer incoming_;
  Intake intake_;
  EventOf<StreamingCall, &StreamingCall::OnRead> read_{this};
  EventOf<StreamingCall, &StreamingCall::OnWritten> written_{this};
  EventOf<StreamingCall, &StreamingCall::OnFinished> finished_{this};
};

}  // namespace topk
