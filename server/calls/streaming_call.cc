#include "server/calls/streaming_call.h"

namespace topk {

Intake::Taken StreamingCall::Take(std::vector<grpc::ByteBuffer>& messages) {
  const Intake::Taken taken = intake_.Take(messages);
  if (taken.read) Read();
  return taken;
}

void StreamingCall::Received(bool ok, grpc::ByteBuffer& message) {
  const Intake::Next next = intake_.Receive(ok, message);
  if (next.read) Read();
  if (next.work) Work(next.bytes);
}

}  // namespace topk
