#include "server/auxiliary/auxiliary_call.h"

#include "core/base/text.h"
#include "server/calls/status_map.h"
#include "server/transport/peer_name.h"

namespace topk {
namespace {

// An IPv6 network of this size is one client.
constexpr int kIpv6Prefix = 64;

}  // namespace

void AuxiliaryCall::Finish(const Status& status) {
  const grpc::Status end = ToGrpcStatus(status);
  NoteStatus(end.error_code());
  StartFinish(end);
}

void AuxiliaryCall::Finish(const grpc::ByteBuffer& last) {
  NoteStatus(grpc::StatusCode::OK);
  StartFinish(last);
}

void AuxiliaryCall::NoteStatus(int code) {
  finished_ = true;
  code_ = code;
  if (!read_failed_) count().Handled(code);
}

void AuxiliaryCall::OnArrival() {
  const std::lock_guard lock(mutex_);
  arrived_ = true;
  if (ended_) return count().Handled(CancelCode());
  const Status status = Admit();
  status.ok() ? Begin() : Finish(status);
}

Status AuxiliaryCall::Admit() {
  if (method_.authenticator != nullptr) {
    const auto caller = method_.authenticator->Authenticate(context_);
    if (!caller.ok()) return caller.status();
  }
  if (method_.limit != nullptr) {
    auto slot =
        method_.limit->Open(NetworkOf(AddressOf(context_.peer()), kIpv6Prefix));
    if (!slot.ok()) return slot.status();
    slot_ = *std::move(slot);
  }
  return {};
}

void AuxiliaryCall::OnRead(bool ok, grpc::ByteBuffer& message) {
  const std::lock_guard lock(mutex_);
  if (ended_ || finished_) return;
  if (!ok) {
    read_failed_ = true;
    return ReceivedAll();
  }
  if (message.Length() > kMaxMessageBytes) {
    const size_t bytes = message.Length();
    message.Clear();
    return Finish(
        ResourceExhausted("MESSAGE_TOO_LARGE", "",
                          StrCat("a message of ", bytes,
                                 " bytes exceeds the limit of this method, ",
                                 kMaxMessageBytes, " bytes")));
  }
  Received(message);
}

void AuxiliaryCall::OnWritten(bool ok) {
  const std::lock_guard lock(mutex_);
  if (ok && !ended_) Sent();
}

void AuxiliaryCall::OnFinished(bool ok) {
  const std::lock_guard lock(mutex_);
  // A read fails at the client's last message, or because gRPC has ended the
  // call: only now it is known whether the status was sent.
  if (read_failed_) count().Handled(ok ? code_ : CancelCode());
}

void AuxiliaryCall::OnEnd() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  slot_.reset();
  if (!arrived_) return;  // OnArrival() is still to come
  if (!finished_) count().Handled(CancelCode());
  Ended();
}

int AuxiliaryCall::CancelCode() const {
  return PastDeadline() ? grpc::StatusCode::DEADLINE_EXCEEDED
                        : grpc::StatusCode::CANCELLED;
}

}  // namespace topk
