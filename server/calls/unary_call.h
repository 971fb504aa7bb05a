// Calls of one message.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "server/calls/call.h"
#include "server/calls/request.h"

namespace topk {

/// One request in, one response out: ComputeTopK and ModelInfer.
class UnaryCall : public Call {
 protected:
  using Call::Call;

  /// The call's request.
  virtual Request& request() = 0;

 private:
  void Received(bool ok, grpc::ByteBuffer& message) final;
  void PrepareOnWorker(WorkQueue::Job& job);
  void Compute();
  void End(const Status& status);
};

/// One message that holds no tensor: GetCapabilities and the like.
class SimpleCall : public Call {
 protected:
  using Call::Call;

  /// Reads the message, which is small, and writes the response.
  virtual Status Answer(grpc::ByteBuffer& message,
                        grpc::ByteBuffer& response) = 0;

 private:
  void Received(bool ok, grpc::ByteBuffer& message) final;
  void AnswerAndFinish();

  InFlightLimiter::Charge charge_;
  grpc::ByteBuffer message_;
};

/// The status of a call that ended before its message.
Status MissingMessage();

}  // namespace topk
