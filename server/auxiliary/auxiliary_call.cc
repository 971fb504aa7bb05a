#include "server/auxiliary/auxiliary_call.h"

#include <chrono>

#include "core/base/text.h"
#include "server/calls/status_map.h"
#include "server/transport/peer_name.h"

namespace topk {
namespace {

// An IPv6 network of this size is one client.
constexpr int kIpv6Prefix = 64;

}  // namespace

RequestFunction RequestsOf(RawMethod method) {
  return [method](grpc::GenericServerContext& context, RawStream& stream,
                  grpc::ServerCompletionQueue& queue, void* tag) {
    method.service.Request(method.index, context, stream, queue, tag);
  };
}

void AuxiliaryCall::Wait() {
  context_.AsyncNotifyWhenDone(end_.For(shared_from_this()));
  method_.request(context_, stream_, loop_.queue(),
                  arrival_.For(shared_from_this()));
}

void AuxiliaryCall::Read() {
  stream_.Read(&incoming_, read_.For(shared_from_this()));
}

void AuxiliaryCall::Write(const grpc::ByteBuffer& message) {
  count_->Sent();
  stream_.Write(message, written_.For(shared_from_this()));
}

void AuxiliaryCall::Finish(const Status& status) {
  const grpc::Status end = ToGrpcStatus(status);
  StartFinish(end.error_code());
  stream_.Finish(end, finish_.For(shared_from_this()));
}

void AuxiliaryCall::Finish(const grpc::ByteBuffer& last) {
  count_->Sent();
  StartFinish(grpc::StatusCode::OK);
  stream_.WriteAndFinish(last, {}, grpc::Status::OK,
                         finish_.For(shared_from_this()));
}

void AuxiliaryCall::StartFinish(int code) {
  finished_ = true;
  code_ = code;
  if (!read_failed_) count_->Handled(code);
}

void AuxiliaryCall::OnArrival(bool ok) {
  if (!ok) {  // the server shuts down
    end_.Drop();
    return;
  }
  Next(loop_)->Wait();
  const std::lock_guard lock(mutex_);
  count_.emplace(method_.series);
  if (ended_) return count_->Handled(CancelCode());
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

void AuxiliaryCall::OnRead(bool ok) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (!ok) {
    read_failed_ = true;
    return ReceivedAll();
  }
  count_->Received();
  if (incoming_.Length() > kMaxMessageBytes) {
    const size_t bytes = incoming_.Length();
    incoming_.Clear();
    return Finish(
        ResourceExhausted("MESSAGE_TOO_LARGE", "",
                          StrCat("a message of ", bytes,
                                 " bytes exceeds the limit of this method, ",
                                 kMaxMessageBytes, " bytes")));
  }
  Received(incoming_);
}

void AuxiliaryCall::OnWritten(bool ok) {
  const std::lock_guard lock(mutex_);
  if (ok && !ended_) Sent();
}

void AuxiliaryCall::OnFinished(bool ok) {
  const std::lock_guard lock(mutex_);
  // A read fails at the client's last message, or because gRPC has ended the
  // call: only now it is known whether the status was sent.
  if (read_failed_) count_->Handled(ok ? code_ : CancelCode());
}

void AuxiliaryCall::OnEnd(bool) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  slot_.reset();
  if (!count_.has_value()) return;  // OnArrival is still to come
  if (!finished_) count_->Handled(CancelCode());
  Ended();
}

int AuxiliaryCall::CancelCode() const {
  return context_.deadline() <= std::chrono::system_clock::now()
             ? grpc::StatusCode::DEADLINE_EXCEEDED
             : grpc::StatusCode::CANCELLED;
}

}  // namespace topk
