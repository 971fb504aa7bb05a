// What ComputeTopKMany and ModelStreamInfer have in common: answers by groups.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <vector>

#include "server/calls/streaming_call.h"

namespace topk {

/// A message out for each one in, in order. What has arrived is answered as a
/// group: computed in one pass, written into one buffer. Meanwhile the next
/// group arrives.
class GroupCall : public StreamingCall {
 protected:
  using StreamingCall::StreamingCall;

  /// Returns how many bytes there are to work on for a request.
  virtual int64_t WorkBytes(grpc::ByteBuffer& request) const = 0;

  /// Returns the answer to a request, whatever is wrong with that; on any
  /// thread, several at a time. `tally` has waited until now.
  virtual grpc::ByteBuffer Compute(grpc::ByteBuffer& request, Tally& tally) = 0;

 private:
  void Work(int64_t) final { AnswerGroup(); }
  void AnswerGroup();
  void Answer(int64_t bytes);
  void SendNext();
  void Sent(bool ok) final;

  std::vector<grpc::ByteBuffer> group_;
  Tally::Clock::time_point since_;  // its first message's arrival
  std::vector<grpc::ByteBuffer> answers_;
  size_t sent_ = 0;
};

}  // namespace topk
