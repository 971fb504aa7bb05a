// What StreamTopK and ComputeTopKMany have in common: messages that wait.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "server/calls/call.h"
#include "server/calls/intake.h"

namespace topk {

/// A call that reads on while what it has read is worked on.
class StreamingCall : public Call {
 protected:
  using Call::Call;

  /// Messages of so many bytes wait, and nobody works on them: the derived
  /// class does so, here or on another thread, until Take() gives nothing.
  virtual void Work(int64_t bytes) = 0;

  /// Takes what waits: see Intake::Take().
  Intake::Taken Take(std::vector<grpc::ByteBuffer>& messages);

  /// As Call's; nothing is read or worked on from then on.
  template <class Last>
  void Finish(const Last& last) {
    intake_.Stop();
    Call::Finish(last);
  }

 private:
  void Received(bool ok, grpc::ByteBuffer& message) final;

  Intake intake_;
};

}  // namespace topk
