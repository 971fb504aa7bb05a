#include "topk/client.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "client/borrowed_buffers.h"
#include "client/channel.h"
#include "client/check_response.h"
#include "client/credentials.h"
#include "client/retry.h"
#include "client/rpc_error.h"
#include "core/base/happens_before.h"
#include "core/base/text.h"
#include "core/common/message_pieces.h"
#include "core/common/methods.h"
#include "core/common/target.h"
#include "grpc/health/v1/health.pb.h"

namespace topk {
namespace {

using std::chrono::system_clock;

// Larger tensors are streamed. In a benchmark with one caller, a call with one
// message took 176 us for 64 KiB, 608 us for 1 MiB and 27 ms for 64 MiB. A
// streaming call took 190 us, 418 us and 16 ms for the same sizes.
constexpr size_t kStreamedBytes = size_t{512} << 10;
// 1 MiB messages had the highest throughput in measurements. All servers accept
// messages of 16 MiB.
constexpr size_t kChunkBytes = size_t{1} << 20;
// Upper bound on timeouts, so that deadlines do not overflow the clock.
constexpr std::chrono::hours kMaxDeadline{24 * 365};
// Protobuf does not support larger messages, and gRPC 1.51 aborts on them.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

Status CheckSize(const Request& request) {
  constexpr size_t kFieldBytes = 32;  // more than the tags and lengths take
  const size_t bytes =
      request.message().ByteSizeLong() +
      (request.tensor() ? request.tensor()->size() + kFieldBytes : 0);
  if (bytes <= kMaxMessageBytes) return {};
  return ResourceExhausted(
      "REQUEST_TOO_LARGE", "tensor.data",
      StrCat("a request message of ", bytes, " bytes exceeds the limit of ",
             kMaxMessageBytes,
             " bytes of protobuf; StreamTopK has no such limit"));
}

std::vector<MessagePiece> RequestPieces(const Request& request) {
  return request.tensor() ? PiecesOf(request.message(), *request.tensor())
                          : PiecesOf(request.message());
}

// Checks a response to `request`, and returns it.
Result<Response> Checked(const v1::TopKRequest& request,
                         v1::TopKResponse& response) {
  if (Status s = CheckResponse(request, response); !s.ok()) return s;
  return Response(std::move(response));
}

struct Call {
  system_clock::time_point deadline;
  const CallOptions& options;
};

// Returns an error if the call was cancelled, its deadline has passed, or its
// metadata is invalid. Call this before each attempt, because gRPC may send a
// request after the deadline, and aborts if the metadata is invalid.
Status CheckCall(const Call& call) {
  if (Status s = CheckMetadata(call.options.metadata, "metadata"); !s.ok()) {
    return s;
  }
  if (call.options.stop.stop_requested()) return Cancelled();
  if (system_clock::now() < call.deadline) return {};
  return {Code::kDeadlineExceeded, "", "",
          "the deadline passed before the request was sent"};
}

// The messages of a stream.
struct StreamHandlers {
  struct Message {
    std::vector<MessagePiece> pieces;
    // Whether another message follows immediately. If so, gRPC may buffer this
    // message.
    bool more = false;
  };
  // Returns the next message, or nullopt after the last message.
  std::function<std::optional<Message>()> next;
  // Consumes a message from the server. Returning an error ends the call.
  std::function<Status(grpc::ByteBuffer&)> receive;
};

// The operation that an event of the completion queue belongs to.
enum class Event { kStart = 1, kWrite, kWritesDone, kRead, kFinish };

void* TagOf(Event event) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(event));
}

// Waits for the next event of a call. REQUIRES: an operation is in flight.
Event Next(grpc::CompletionQueue& queue, bool& ok) {
  void* tag = nullptr;
  queue.Next(&tag, &ok);
  return static_cast<Event>(reinterpret_cast<intptr_t>(tag));
}

// Runs one stream. At most one write and one read are in flight.
class StreamCall {
 public:
  StreamCall(grpc::GenericStub& stub, const std::string& method,
             const StreamHandlers& handlers, grpc::CompletionQueue& queue,
             grpc::ClientContext& context, BorrowedBuffers& borrowed)
      : handlers_(handlers),
        queue_(queue),
        context_(context),
        borrowed_(borrowed),
        stream_(stub.PrepareCall(&context, method, &queue)) {}

  Status Run() {
    stream_->StartCall(TagOf(Event::kStart));
    bool ok = false;
    Next(queue_, ok);
    if (ok) {
      Read();
      Write();
      while (reading_ || writing_) Take();
    }
    grpc::Status status;
    stream_->Finish(&status, TagOf(Event::kFinish));
    Next(queue_, ok);
    if (!bad_.ok()) return bad_;
    return status.ok() ? Status{} : FromGrpc(status, context_);
  }

 private:
  void Read() {
    reading_ = true;
    stream_->Read(&incoming_, TagOf(Event::kRead));
  }

  void Write() {
    writing_ = true;
    const std::optional<StreamHandlers::Message> message = handlers_.next();
    if (!message.has_value()) {
      stream_->WritesDone(TagOf(Event::kWritesDone));
      return;
    }
    grpc::WriteOptions options;
    if (message->more) options.set_buffer_hint();
    stream_->Write(borrowed_.Wrap(message->pieces), options,
                   TagOf(Event::kWrite));
  }

  void Take() {
    bool ok = false;
    switch (Next(queue_, ok)) {
      case Event::kWrite:
        writing_ = false;
        // If a write fails, the server has already ended the call with a
        // status.
        if (ok && reading_) Write();
        break;
      case Event::kRead:
        reading_ = false;
        if (!ok) break;
        bad_ = handlers_.receive(incoming_);
        if (bad_.ok()) {
          Read();
        } else {
          context_.TryCancel();
        }
        break;
      default:
        writing_ = false;
    }
  }

  const StreamHandlers& handlers_;
  grpc::CompletionQueue& queue_;
  grpc::ClientContext& context_;
  BorrowedBuffers& borrowed_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  bool reading_ = false;
  bool writing_ = false;
  Status bad_;
};

}  // namespace

struct Client::Impl {
  class AsyncCall;

  explicit Impl(const ClientOptions& client_options)
      : options(client_options),
        setup(Client::Check(client_options)),
        token(client_options.token_file),
        channel(Connect(client_options,
                        setup.ok() ? MakeCredentials(client_options)
                                   : grpc::InsecureChannelCredentials())),
        calls(channel) {}

  // Waits for all asynchronous calls. If the calls shared ownership of this
  // object, a callback could destroy the channel, which gRPC does not allow.
  ~Impl() {
    closing.request_stop();
    std::unique_lock lock(calls_mutex);
    all_ended.wait(lock, [this] { return in_flight == 0; });
  }

  Call Begin(const CallOptions& call) const {
    const std::chrono::milliseconds wanted =
        call.timeout.value_or(options.timeout);
    return {system_clock::now() +
                std::clamp<std::chrono::milliseconds>(
                    wanted, std::chrono::milliseconds(0), kMaxDeadline),
            call};
  }

  // Sets the metadata and the deadline of an attempt.
  void Prepare(const Call& call, grpc::ClientContext& context) {
    AddHeaders(call.options.metadata, options.metadata, token, context);
    if (call.options.wait_for_ready.value_or(options.wait_for_ready)) {
      context.set_wait_for_ready(true);
    }
    context.set_deadline(call.deadline);
  }

  // Calls `run` with a new context, waits until gRPC has released the request's
  // memory, and returns the result of `run`.
  template <class Run>
  Status InContext(const Call& call, Run run) {
    BorrowedBuffers borrowed(memory);
    grpc::CompletionQueue queue;
    Status status;
    {
      grpc::ClientContext context;
      Prepare(call, context);
      const std::stop_callback cancel(call.options.stop,
                                      [&] { context.TryCancel(); });
      status = run(queue, context, borrowed);
    }
    borrowed.AwaitReturn(queue);
    return status;
  }

  // Sends a request's pieces in one message, and receives one message.
  template <class Answer>
  Result<Answer> Ask(const char* path, const std::vector<MessagePiece>& request,
                     const std::optional<Retry>& retry, const Call& call) {
    grpc::ByteBuffer bytes;
    const Status status = Attempt(
        retry, call,
        [&](auto& queue, auto& context, auto& borrowed) {
          const auto unary = calls.PrepareUnaryCall(
              &context, path, borrowed.Wrap(request), &queue);
          unary->StartCall();
          grpc::Status end;
          unary->Finish(&bytes, &end, TagOf(Event::kFinish));
          bool ok = false;
          Next(queue, ok);
          return end.ok() ? Status() : FromGrpc(end, context);
        },
        [] { return false; });
    if (!status.ok()) return status;
    Answer answer;
    if (Status s = ReadAnswer(bytes, answer); !s.ok()) return s;
    return answer;
  }

  // Makes a streaming call. Between attempts, `rewind` goes back to the first
  // unanswered request and returns whether part of a response had arrived.
  Status Stream(Method method, const StreamHandlers& handlers,
                const std::function<bool()>& rewind, const Call& call) {
    return Attempt(
        options.retry, call,
        [&](auto& queue, auto& context, auto& borrowed) {
          return StreamCall(calls, PathOf(method), handlers, queue, context,
                            borrowed)
              .Run();
        },
        rewind);
  }

  Result<Response> StreamTensor(const Request& request, const Call& call);

  // Calls `run` with a new context for each attempt, until it succeeds or fails
  // with an error that is not retried.
  template <class Run>
  Status Attempt(const std::optional<Retry>& retry, const Call& call, Run run,
                 const std::function<bool()>& rewind) {
    if (!setup.ok()) return setup;
    Attempts attempts(retry, call.deadline);
    while (true) {
      if (Status s = CheckCall(call); !s.ok()) return s;
      Status status = InContext(call, run);
      const auto then = RetryTime(attempts, call, status, rewind);
      if (!then.has_value()) return status;
      // First wait for a connection, because gRPC reconnects only while a
      // caller waits. Then sleep until `wake`, even if the system time changes.
      const auto wake =
          std::chrono::steady_clock::now() + (*then - system_clock::now());
      WaitForConnected(*then, call.options.stop);
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait_until(lock, call.options.stop, wake,
                                               [] { return false; });
    }
  }

  // Returns when to retry, or nullopt to end the call with `status`.
  static std::optional<system_clock::time_point> RetryTime(
      Attempts& attempts, const Call& call, Status& status,
      const std::function<bool()>& rewind) {
    if (status.ok()) return {};
    if (call.options.stop.stop_requested()) {
      status = Cancelled();
      return {};
    }
    return attempts.Next(status, rewind());
  }

  void WaitForConnected(system_clock::time_point until,
                        const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kStep(50);
    while (!stop.stop_requested() && system_clock::now() < until) {
      const auto step = stop.stop_possible()
                            ? std::min(until, system_clock::now() + kStep)
                            : until;
      if (channel->WaitForConnected(step)) return;
    }
  }

  ClientOptions options;
  const Status setup;  // if not OK, every call fails without being sent
  TokenFile token;
  // Requests over a Unix socket are copied. If the server stalls, gRPC never
  // closes the socket, and might never release borrowed memory.
  const Memory memory =
      IsUnixAddress(options.target) ? Memory::kCopied : Memory::kBorrowed;
  const std::shared_ptr<grpc::ChannelInterface> channel;
  grpc::GenericStub calls;
  // Asynchronous calls.
  std::stop_source closing;
  std::mutex calls_mutex;
  std::condition_variable all_ended;
  int in_flight = 0;
};

Status Client::Check(const ClientOptions& options) {
  return CheckOptions(options,
                      [](std::string_view name) { return std::string(name); });
}

Client::Client(const ClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Response> Client::ComputeTopK(const Request& request,
                                     const CallOptions& options) const {
  const Call call = impl_->Begin(options);
  if (request.tensor() &&
      options.stream.value_or(request.tensor()->size() > kStreamedBytes)) {
    return impl_->StreamTensor(request, call);
  }
  if (Status s = CheckSize(request); !s.ok()) return s;
  Result<v1::TopKResponse> answer = impl_->Ask<v1::TopKResponse>(
      PathOf(Method::kComputeTopK), RequestPieces(request),
      impl_->options.retry, call);
  if (!answer.ok()) return answer.status();
  return Checked(request.message(), *answer);
}

Result<Response> Client::Impl::StreamTensor(const Request& request,
                                            const Call& call) {
  const std::span<const std::byte> tensor = *request.tensor();
  using Message = StreamHandlers::Message;
  v1::TopKRequestChunk first;
  *first.mutable_header() = request.message();
  bool begun = false;
  size_t sent = 0;
  StreamHandlers handlers;
  handlers.next = [&]() -> std::optional<Message> {
    if (!std::exchange(begun, true)) {
      return Message{PiecesOf(first), false};
    }
    if (sent == tensor.size()) return {};
    const auto part =
        tensor.subspan(sent, std::min(kChunkBytes, tensor.size() - sent));
    sent += part.size();
    return Message{PiecesOf(v1::TopKRequestChunk::kDataFieldNumber, part),
                   false};
  };
  std::optional<v1::TopKResponse> response;
  handlers.receive = [&](grpc::ByteBuffer& bytes) {
    v1::TopKResponseChunk chunk;
    if (Status s = ReadAnswer(bytes, chunk); !s.ok()) return s;
    return Assemble(chunk, response);
  };
  const auto rewind = [&] {
    sent = 0;
    begun = false;
    return std::exchange(response, std::nullopt).has_value();
  };
  const Status status = Stream(Method::kStreamTopK, handlers, rewind, call);
  if (!status.ok()) return status;
  if (!response) return BadAnswer("", "the stream ended without a header");
  return Checked(request.message(), *response);
}

Status Client::ComputeTopKMany(
    std::span<const Request> requests,
    const std::function<void(size_t, Result<Response>)>& done,
    const CallOptions& options) const {
  using Message = StreamHandlers::Message;
  // The maximum number of requests that are buffered and sent together.
  constexpr size_t kTogether = 32;
  const Call call = impl_->Begin(options);
  size_t next = 0;
  StreamHandlers handlers;
  handlers.next = [&]() -> std::optional<Message> {
    if (next == requests.size()) return {};
    const Request& request = requests[next++];
    return Message{RequestPieces(request), next % kTogether != 0};
  };
  size_t answered = 0;
  const auto finish = [&](Result<Response> result) {
    done(answered++, std::move(result));
  };
  handlers.receive = [&](grpc::ByteBuffer& bytes) -> Status {
    v1::TopKResult result;
    if (Status s = ReadAnswer(bytes, result); !s.ok()) return s;
    if (answered == next) {
      return BadAnswer("", "more results than requests");
    }
    if (!result.has_response()) {
      if (result.error().code() == 0) return BadAnswer("", "an empty result");
      finish(FromRpc(result.error()));
      return {};
    }
    Result<Response> checked =
        Checked(requests[answered].message(), *result.mutable_response());
    if (!checked.ok()) return checked.status();
    finish(std::move(checked));
    return {};
  };
  size_t before = 0;  // number of responses on earlier streams
  const auto rewind = [&] {
    next = answered;
    return std::exchange(before, next) < next;
  };
  Status end;
  for (const Request& request : requests) {
    if (end.ok()) end = CheckSize(request);
  }
  if (end.ok()) {
    end = impl_->Stream(Method::kComputeTopKMany, handlers, rewind, call);
  }
  if (answered == requests.size()) return end;
  if (end.ok()) end = BadAnswer("", "fewer results than requests");
  while (answered < requests.size()) finish(end);
  return end;
}

// An asynchronous call, kept alive by its gRPC callbacks and its retry alarm.
class Client::Impl::AsyncCall
    : public std::enable_shared_from_this<Client::Impl::AsyncCall> {
 public:
  using Done = std::function<void(Result<Response>)>;

  AsyncCall(Impl* impl, const Request& request, const CallOptions& options,
            Done done)
      : impl_(Enter(impl), Leave),
        options_(options),
        deadline_(impl_->Begin(options_).deadline),
        attempts_(impl_->options.retry, deadline_),
        header_(request.message()),
        request_(BorrowedBuffers(Memory::kCopied).Wrap(RequestPieces(request))),
        done_(std::move(done)),
        on_stop_(options_.stop, [this] { Cancel(); }),
        on_close_(impl->closing.get_token(), [this] { Cancel(); }) {}

  void Start() {
    auto context = std::make_unique<grpc::ClientContext>();
    impl_->Prepare(call(), *context);
    {
      const std::lock_guard lock(mutex_);
      pause_ = nullptr;  // the alarm holds a reference to this call
      context_ = std::move(context);
    }
    Status status = stopped() ? Cancelled() : CheckCall(call());
    if (!status.ok()) return done_(std::move(status));
    impl_->calls.UnaryCall(
        context_.get(), PathOf(Method::kComputeTopK), {}, &request_, &answer_,
        HandedOver([self = shared_from_this()](const grpc::Status& end) {
          self->Finish(end);
        }));
  }

 private:
  Call call() const { return {deadline_, options_}; }

  static Impl* Enter(Impl* impl) {
    const std::lock_guard lock(impl->calls_mutex);
    ++impl->in_flight;
    return impl;
  }
  static void Leave(Impl* impl) {
    const std::lock_guard lock(impl->calls_mutex);
    if (--impl->in_flight == 0) impl->all_ended.notify_all();
  }

  void Cancel() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (context_ != nullptr) context_->TryCancel();
    if (pause_ != nullptr) pause_->Cancel();
  }

  bool stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  void Finish(const grpc::Status& end) {
    Status status = end.ok() ? Status() : FromGrpc(end, *context_);
    if (!end.ok() && stopped()) status = Cancelled();
    const auto then =
        RetryTime(attempts_, call(), status, [] { return false; });
    if (!then.has_value()) return done_(Take(std::move(status)));
    impl_->channel->GetState(/*try_to_connect=*/true);
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    pause_ = std::make_unique<grpc::Alarm>();
    pause_->Set(*then, HandedOver([self = shared_from_this()](bool) {
      self->Start();
    }));
    if (stopped_) pause_->Cancel();
  }

  Result<Response> Take(Status status) {
    v1::TopKResponse response;
    if (status.ok()) status = ReadAnswer(answer_, response);
    if (!status.ok()) return status;
    return Checked(header_, response);
  }

  // Declared first, so that Leave() runs after all other members are destroyed.
  const std::unique_ptr<Impl, void (*)(Impl*)> impl_;
  const CallOptions options_;
  const system_clock::time_point deadline_;
  Attempts attempts_;
  const v1::TopKRequest header_;
  const grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  const Done done_;
  std::mutex mutex_;  // guards context_, pause_ and stopped_
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::Alarm> pause_;
  bool stopped_ = false;
  // Declared last and destroyed first. The destructors wait for running
  // Cancel() calls, which use the members above.
  const std::stop_callback<std::function<void()>> on_stop_, on_close_;
};

void Client::ComputeTopK(const Request& request, const CallOptions& options,
                         std::function<void(Result<Response>)> done) const {
  Status status = impl_->setup;
  if (status.ok()) status = CheckSize(request);
  if (!status.ok()) return done(std::move(status));
  std::make_shared<Impl::AsyncCall>(impl_.get(), request, options,
                                    std::move(done))
      ->Start();
}

Result<v1::Capabilities> Client::GetCapabilities(
    const CallOptions& options) const {
  return impl_->Ask<v1::Capabilities>(
      PathOf(Method::kGetCapabilities), PiecesOf(v1::GetCapabilitiesRequest()),
      impl_->options.retry, impl_->Begin(options));
}

Result<bool> Client::IsServing(const std::string& service,
                               const CallOptions& options) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto response = impl_->Ask<grpc::health::v1::HealthCheckResponse>(
      "/grpc.health.v1.Health/Check", PiecesOf(request),
      /*retry=*/std::nullopt, impl_->Begin(options));
  if (!response.ok()) return response.status();
  return response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace topk
