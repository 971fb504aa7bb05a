// What calls of one message have in common.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "server/calls/call.h"

namespace topk {

/// One message in, one out.
class UnaryCall : public Call {
 protected:
  using Call::Call;

  /// The request is here: answers it.
  virtual void Answer() = 0;

  /// Whether its bytes may stay.
  Status Ask() {
    return service_.gate().Ask(visit(),
                               static_cast<int64_t>(request_.Length()));
  }

  grpc::ByteBuffer request_;
  Tally tally_;

 private:
  void Received(bool ok, grpc::ByteBuffer& message) final;
};

/// One whose answer takes work.
class WorkCall : public UnaryCall {
 protected:
  using UnaryCall::UnaryCall;

  /// Returns how many bytes there are to work on for the request.
  virtual int64_t WorkBytes() = 0;

  /// Does the work and answers; on any thread.
  virtual void Compute() = 0;

 private:
  void Answer() final;
};

}  // namespace topk
