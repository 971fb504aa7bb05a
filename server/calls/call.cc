#include "server/calls/call.h"

#include <grpc/support/time.h>

#include <chrono>
#include <utility>

namespace topk {

Status MissingMessage() {
  return InvalidArgument("MESSAGE_MISSING", "",
                         "the call has no request message");
}

std::chrono::system_clock::time_point Call::Deadline() const {
  using std::chrono::system_clock;
  // gRPC's conversion overflows beyond the year 2262.
  constexpr auto kLast =
      std::chrono::floor<std::chrono::seconds>(system_clock::time_point::max());
  const gpr_timespec deadline =
      gpr_convert_clock_type(context_.raw_deadline(), GPR_CLOCK_REALTIME);
  if (deadline.tv_sec >= kLast.time_since_epoch().count()) {
    return system_clock::time_point::max();
  }
  return context_.deadline();
}

bool Call::PastDeadline() const {
  // A client cancels at its own deadline. This one is later by the time that
  // the headers took, and by gRPC's rounding.
  constexpr std::chrono::milliseconds kEarly{10};
  return Deadline() <= std::chrono::system_clock::now() + kEarly;
}

void Call::Wait() {
  const std::shared_ptr<Call> self = shared_from_this();
  context_.AsyncNotifyWhenDone(ended_.For(self));
  method_.request(context_, stream_, loop_.queue(), arrived_.For(self));
}

void Call::StartRead() {
  WidenRace();
  stream_.Read(&incoming_, read_.For(shared_from_this()));
  WidenRace();
}

void Call::StartWrite(const grpc::ByteBuffer& message,
                      grpc::WriteOptions options) {
  count_->Sent();
  // The call's metadata goes with its first message, and the write finishes
  // when the metadata is sent: with the hint perhaps never.
  if (!std::exchange(has_written_, true)) options.clear_buffer_hint();
  stream_.Write(message, options, written_.For(shared_from_this()));
  WidenRace();
}

void Call::StartFinish(const grpc::Status& status) {
  stream_.Finish(status, finished_.For(shared_from_this()));
  WidenRace();
}

void Call::StartFinish(const grpc::ByteBuffer& last) {
  count_->Sent();
  stream_.WriteAndFinish(last, {}, grpc::Status::OK,
                         finished_.For(shared_from_this()));
  WidenRace();
}

void Call::Arrived(bool ok) {
  if (!ok) {  // the server shuts down; `ended_` does not come for such
    ended_.Drop();
    return;
  }
  WidenRace();
  count_.emplace(method_.series);
  Next()->Wait();
  WidenRace();
  OnArrival();
}

void Call::Read(bool ok) {
  if (ok) count_->Received();
  OnRead(ok, incoming_);
}

}  // namespace topk
