#include "server/calls/unary_call.h"

namespace topk {

void UnaryCall::Received(bool ok, grpc::ByteBuffer& message) {
  if (!ok) {  // or it was too large: then gRPC has ended the call itself
    return Refuse(InvalidArgument("MESSAGE_MISSING", "",
                                  "the call has no request message"));
  }
  tally_.begun = info().arrived;
  tally_.Arrive(Tally::Clock::now());
  request_.Swap(&message);
  Answer();
}

void WorkCall::Answer() {
  const int64_t bytes = WorkBytes();
  Status status = Ask();
  if (status.ok()) {
    status = service_.work().CheckDeadline(bytes, context_.deadline());
  }
  if (!status.ok()) return Refuse(status);
  Hold();
  service_.work().Run(bytes, [this, bytes] {
    tally_.Lap(Stage::kQueue);
    Compute();
    Release();
    return bytes;
  });
}

}  // namespace topk
