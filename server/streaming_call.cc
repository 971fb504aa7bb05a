#include "server/streaming_call.h"

#include "server/status_map.h"

namespace topk {

void StreamingCall::Read() {
  Hold();
  stream_.Read(&incoming_, &read_);
}

Intake::Taken StreamingCall::Take(std::vector<grpc::ByteBuffer>& messages) {
  const Intake::Taken taken = intake_.Take(messages);
  if (taken.read) Read();
  return taken;
}

void StreamingCall::Write(const grpc::ByteBuffer& message,
                          grpc::WriteOptions options) {
  count().Sent();
  Hold();
  stream_.Write(message, options, &written_);
}

void StreamingCall::WriteAndFinish(const grpc::ByteBuffer& message) {
  intake_.Stop();
  count().Sent();
  count().Handled(grpc::StatusCode::OK);
  Hold();
  stream_.WriteAndFinish(message, {}, grpc::Status::OK, &finished_);
}

void StreamingCall::Finish(const Status& status) {
  intake_.Stop();
  const grpc::Status end = ToGrpcStatus(status);
  count().Handled(end.error_code());
  Hold();
  stream_.Finish(end, &finished_);
}

void StreamingCall::OnRead(bool ok) {
  if (ok) count().Received();
  const Intake::Next next = intake_.Receive(ok, incoming_);
  if (next.read) Read();
  if (next.work) Work(next.bytes);
  Release();
}

void StreamingCall::OnWritten(bool ok) {
  Sent(ok);
  Release();
}

void StreamingCall::OnFinished(bool) { Release(); }

}  // namespace topk
