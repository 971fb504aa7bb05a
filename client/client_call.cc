#include "client/client_call.h"

#include <algorithm>

#include "client/credentials.h"
#include "client/rpc_error.h"
#include "core/base/happens_before.h"
#include "core/base/text.h"

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// Upper bound on timeouts, so that deadlines do not overflow the clock.
constexpr std::chrono::hours kMaxTimeout{24 * 365};
// How often a call that waits to be retried checks whether it was cancelled.
constexpr milliseconds kStep(50);

}  // namespace

grpc::ByteBuffer BufferOf(const std::vector<MessagePiece>& pieces,
                          std::atomic<int64_t>* borrowed) {
  std::vector<grpc::Slice> slices;
  for (const MessagePiece& piece : pieces) {
    if (piece.borrowed.empty()) {
      slices.emplace_back(piece.own);
    } else if (borrowed == nullptr) {
      slices.emplace_back(piece.borrowed.data(), piece.borrowed.size());
    } else {
      ++*borrowed;
      slices.emplace_back(
          const_cast<std::byte*>(piece.borrowed.data()), piece.borrowed.size(),
          [](void* count) { --*static_cast<std::atomic<int64_t>*>(count); },
          borrowed);
    }
  }
  return {slices.data(), slices.size()};
}

ClientCall::ClientCall(Connection& connection, grpc::CompletionQueue& queue,
                       std::string_view path, bool is_unary)
    : connection_(connection), queue_(queue), path_(path), is_unary_(is_unary) {
  for (int i = 0; i < kEvents; ++i) tags_[i] = {this, static_cast<Event>(i)};
}

grpc::ByteBuffer ClientCall::Borrow(const std::vector<MessagePiece>& pieces) {
  return BufferOf(pieces, connection_.copies ? nullptr : &borrowed_);
}

bool ClientCall::Start(const CallOptions& options, bool retries) {
  options_ = &options;
  deadline_ = system_clock::now() +
              std::clamp<milliseconds>(
                  options.timeout.value_or(connection_.options.timeout),
                  milliseconds(0), kMaxTimeout);
  attempts_.emplace(retries ? connection_.options.retry : std::nullopt,
                    deadline_);
  return Attempt();
}

Status ClientCall::Run(const CallOptions& options, bool retries) {
  void* tag = nullptr;
  bool ok = false;
  if (!Start(options, retries)) return status_;
  do {
    queue_.Next(&tag, &ok);
  } while (Handle(tag, ok) == nullptr);
  while (borrowed_ > 0) {
    // No more events will arrive, but gRPC does its socket writes on the thread
    // that polls this queue, so keep polling.
    queue_.AsyncNext(&tag, &ok, system_clock::now() + milliseconds(1));
  }
  return status_;
}

ClientCall* ClientCall::Handle(void* tag, bool ok) {
  AnnotateHappensAfter(tag);
  const auto [call, event] = *static_cast<Tag*>(tag);
  return call->OnEvent(event, ok) ? call : nullptr;
}

void* ClientCall::TagOf(Event event) {
  AnnotateHappensBefore(&tags_[event]);
  return &tags_[event];
}

// Returns why an attempt must not be made. gRPC may send a request after the
// deadline, and aborts if the metadata is invalid.
Status ClientCall::Check() const {
  if (!connection_.setup.ok()) return connection_.setup;
  if (Status s = CheckMetadata(options_->metadata); !s.ok()) return s;
  if (options_->stop.stop_requested()) return Cancelled();
  if (system_clock::now() < deadline_) return {};
  return {Code::kDeadlineExceeded, "", "",
          "the deadline passed before the request was sent"};
}

// Starts an attempt. Returns false if the call has ended instead.
bool ClientCall::Attempt() {
  status_ = Check();
  if (!status_.ok()) return false;
  const ClientOptions& client = connection_.options;
  grpc::ClientContext& context = context_.emplace();
  AddHeaders(options_->metadata, client.metadata, connection_.token, context);
  if (options_->wait_for_ready.value_or(client.wait_for_ready)) {
    context.set_wait_for_ready(true);
  }
  context.set_deadline(deadline_);
  cancel_.emplace(options_->stop, [&context] { context.TryCancel(); });
  bad_ = {};
  begun_ = false;
  if (is_unary_) {
    unary_ = connection_.stub.PrepareUnaryCall(&context, path_, Next()->bytes,
                                               &queue_);
    unary_->StartCall();
    unary_->Finish(&incoming_, &end_, TagOf(kFinish));
  } else {
    more_ = true;
    stream_ = connection_.stub.PrepareCall(&context, path_, &queue_);
    stream_->StartCall(TagOf(kStart));
  }
  return true;
}

// Returns whether the call has ended.
bool ClientCall::OnEvent(Event event, bool ok) {
  if (event == kFinish) return End();
  if (event == kPause) {
    if (!options_->stop.stop_requested() && Clock::now() < next_attempt_) {
      Pause();
      return false;
    }
    return !Attempt();
  }
  if (event == kWrite) writing_ = false;
  if (event == kRead) reading_ = false;
  if (event == kRead && ok) {
    begun_ = true;
    bad_ = Receive(incoming_);
    if (!bad_.ok()) context_->TryCancel();
  }
  if (event != kWrite && ok && bad_.ok()) {
    reading_ = true;
    stream_->Read(&incoming_, TagOf(kRead));
  }
  // If a write fails, the server has already ended the call with a status.
  if (event != kRead && ok && reading_ && more_) Write();
  if (!reading_ && !writing_) stream_->Finish(&end_, TagOf(kFinish));
  return false;
}

void ClientCall::Write() {
  writing_ = true;
  const std::optional<Message> message = Next();
  more_ = message && !message->options.is_last_message();
  if (message) {
    stream_->Write(message->bytes, message->options, TagOf(kWrite));
  } else {
    stream_->WritesDone(TagOf(kWrite));
  }
}

// Handles the end of an attempt. Returns whether the call has ended, i.e. is
// not retried.
bool ClientCall::End() {
  status_ = !bad_.ok() ? bad_ : Status();
  if (status_.ok() && !end_.ok()) {
    status_ = FromGrpc(end_, *context_);
    if (status_.reason.empty() && (status_.code == Code::kUnavailable ||
                                   status_.code == Code::kDeadlineExceeded)) {
      // gRPC's message may be only "Socket closed".
      const ClientOptions& client = connection_.options;
      status_.message = StrCat("calling ", client.target,
                               IsSecure(client) ? " with" : " without",
                               " TLS: ", status_.message);
    }
  }
  if (status_.ok() && is_unary_) status_ = Receive(incoming_);
  cancel_.reset();
  unary_.reset();
  stream_.reset();
  context_.reset();
  if (status_.ok()) return true;
  if (options_->stop.stop_requested()) {
    status_ = Cancelled();
    return true;
  }
  const auto then = attempts_->Next(status_, begun_);
  if (!then) return true;
  Rewind();
  // Use a clock that is not changed, e.g. by the system's administrator.
  next_attempt_ = Clock::now() + (*then - system_clock::now());
  Pause();
  return false;
}

// Waits until the next attempt, the next step or a new state of the channel.
// gRPC connects only while a queue is polled that waits for such a state.
void ClientCall::Pause() {
  const auto now = system_clock::now();
  auto until = now + std::chrono::duration_cast<system_clock::duration>(
                         next_attempt_ - Clock::now());
  if (options_->stop.stop_possible()) {
    until = std::min<system_clock::time_point>(until, now + kStep);
  }
  grpc::ChannelInterface& channel = *connection_.channel;
  channel.NotifyOnStateChange(channel.GetState(/*try_to_connect=*/true), until,
                              &queue_, TagOf(kPause));
}

}  // namespace topk
