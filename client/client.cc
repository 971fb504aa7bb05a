#include "topk/client.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>

#include "client/channel.h"
#include "client/check_response.h"
#include "client/client_call.h"
#include "client/rpc_error.h"
#include "core/base/text.h"
#include "core/common/message_pieces.h"
#include "core/common/methods.h"
#include "grpc/health/v1/health.pb.h"

namespace topk {
namespace {

// Larger tensors are streamed. In a benchmark with one caller, a call with one
// message took 176 us for 64 KiB, 608 us for 1 MiB and 27 ms for 64 MiB. A
// streaming call took 190 us, 418 us and 16 ms for the same sizes.
constexpr size_t kStreamedBytes = size_t{512} << 10;
// 1 MiB messages had the highest throughput in measurements. All servers accept
// messages of 16 MiB.
constexpr size_t kChunkBytes = size_t{1} << 20;
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

// A call with one request and one response.
template <class Answer>
class UnaryCall : public ClientCall {
 public:
  UnaryCall(Connection& connection, grpc::CompletionQueue& queue,
            const char* path, std::vector<MessagePiece> request)
      : ClientCall(connection, queue, path, /*is_unary=*/true),
        request_(std::move(request)) {}

  Answer& answer() { return answer_; }

 protected:
  std::optional<Message> Next() override { return Message{Borrow(request_)}; }
  Status Receive(grpc::ByteBuffer& bytes) override {
    return ReadAnswer(bytes, answer_);
  }
  void Rewind() override {}

 private:
  const std::vector<MessagePiece> request_;
  Answer answer_;
};

// A StreamTopK call.
class TensorCall : public ClientCall {
 public:
  TensorCall(Connection& connection, grpc::CompletionQueue& queue,
             const Request& request)
      : ClientCall(connection, queue, kStreamTopK,
                   /*is_unary=*/false),
        tensor_(*request.tensor()) {
    *header_.mutable_header() = request.message();
  }

  std::optional<v1::TopKResponse>& response() { return response_; }

 protected:
  std::optional<Message> Next() override {
    if (!sent_) {
      sent_ = 0;
      return Message{Borrow(PiecesOf(header_))};
    }
    if (sent_ == tensor_.size()) return {};
    const auto part =
        tensor_.subspan(*sent_, std::min(kChunkBytes, tensor_.size() - *sent_));
    *sent_ += part.size();
    return Message{
        Borrow(PiecesOf(v1::TopKRequestChunk::kDataFieldNumber, part))};
  }
  Status Receive(grpc::ByteBuffer& bytes) override {
    v1::TopKResponseChunk chunk;
    if (Status s = ReadAnswer(bytes, chunk); !s.ok()) return s;
    return Assemble(chunk, response_);
  }
  void Rewind() override {
    sent_.reset();
    response_.reset();
  }

 private:
  const std::span<const std::byte> tensor_;
  v1::TopKRequestChunk header_;
  std::optional<size_t> sent_;  // not set before the header was sent
  std::optional<v1::TopKResponse> response_;
};

class ManyCall : public ClientCall {
 public:
  using Done = std::function<void(size_t, Result<Response>)>;

  ManyCall(Connection& connection, grpc::CompletionQueue& queue,
           std::span<const Request> requests, const Done& done)
      : ClientCall(connection, queue, kComputeTopKMany,
                   /*is_unary=*/false),
        requests_(requests),
        done_(done) {}

  // Calls `done` with the error of the call for each unanswered request, and
  // returns the error.
  Status Finish(Status end) {
    if (answered_ == requests_.size()) return end;
    if (end.ok()) end = BadAnswer("", "fewer results than requests");
    while (answered_ < requests_.size()) done_(answered_++, end);
    return end;
  }

 protected:
  std::optional<Message> Next() override {
    // The maximum number of requests that are buffered and sent together.
    constexpr size_t kTogether = 32;
    if (next_ == requests_.size()) return {};
    Message message{Borrow(RequestPieces(requests_[next_++]))};
    if (next_ % kTogether != 0) message.options.set_buffer_hint();
    return message;
  }
  Status Receive(grpc::ByteBuffer& bytes) override {
    v1::TopKResult result;
    if (Status s = ReadAnswer(bytes, result); !s.ok()) return s;
    if (answered_ == next_) return BadAnswer("", "more results than requests");
    if (!result.has_response()) {
      if (result.error().code() == 0) return BadAnswer("", "an empty result");
      done_(answered_++, FromRpc(result.error()));
      return {};
    }
    Result<Response> checked =
        Checked(requests_[answered_].message(), *result.mutable_response());
    if (!checked.ok()) return checked.status();
    done_(answered_++, std::move(checked));
    return {};
  }
  void Rewind() override { next_ = answered_; }

 private:
  const std::span<const Request> requests_;
  const Done& done_;
  size_t next_ = 0;
  size_t answered_ = 0;
};

// Makes a call with one request and one response.
template <class Answer>
Result<Answer> Ask(Connection& connection, const char* path,
                   std::vector<MessagePiece> request,
                   const CallOptions& options, bool retries = true) {
  grpc::CompletionQueue queue;
  UnaryCall<Answer> call(connection, queue, path, std::move(request));
  if (Status s = call.Run(options, retries); !s.ok()) return s;
  return std::move(call.answer());
}

}  // namespace

// The queue of a client's asynchronous calls, and the threads that poll it.
class AsyncQueue {
 public:
  // Cancels all calls and waits for them.
  ~AsyncQueue() {
    closing.request_stop();
    for (int calls = in_flight; calls > 0; calls = in_flight) {
      in_flight.wait(calls);
    }
    queue.Shutdown();
  }

  // Starts the threads unless they have been started.
  void StartThreads();

  std::stop_source closing;
  std::atomic<int> in_flight = 0;
  grpc::CompletionQueue queue;

 private:
  std::once_flag started_;
  std::vector<std::jthread> threads_;
};

namespace {

// An asynchronous call, which deletes itself when it ends.
class AsyncCall : public UnaryCall<v1::TopKResponse> {
 public:
  using Done = std::function<void(Result<Response>)>;

  AsyncCall(Connection& connection, AsyncQueue& async, const Request& request,
            const CallOptions& options, Done done)
      : UnaryCall(connection, async.queue, kComputeTopK, {}),
        in_flight_(async.in_flight),
        header_(request.message()),
        request_(BufferOf(RequestPieces(request))),
        done_(std::move(done)),
        options_(options),
        on_stop_(options.stop, [this] { stop_.request_stop(); }),
        on_close_(async.closing.get_token(), [this] { stop_.request_stop(); }) {
    options_.stop = stop_.get_token();
    ++in_flight_;
  }

  void Start() {
    if (!ClientCall::Start(options_)) Finish();
  }

  void Finish() {
    if (status().ok()) {
      done_(Checked(header_, answer()));
    } else {
      done_(status());
    }
    std::atomic<int>& in_flight = in_flight_;
    delete this;
    if (--in_flight == 0) in_flight.notify_all();
  }

 private:
  std::optional<Message> Next() override { return Message{request_}; }

  std::atomic<int>& in_flight_;
  const v1::TopKRequest header_;
  const grpc::ByteBuffer request_;
  const Done done_;
  CallOptions options_;
  std::stop_source stop_;
  const std::stop_callback<std::function<void()>> on_stop_, on_close_;
};

}  // namespace

void AsyncQueue::StartThreads() {
  const auto poll = [this] {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
      if (ClientCall* const ended = ClientCall::Handle(tag, ok)) {
        static_cast<AsyncCall*>(ended)->Finish();
      }
    }
  };
  std::call_once(started_, [&] {
    const auto cpus = std::thread::hardware_concurrency();
    for (unsigned i = 0; i < std::clamp(cpus / 2, 1u, 16u); ++i) {
      threads_.emplace_back(poll);
    }
  });
}

struct Client::Impl : Connection {
  using Connection::Connection;

  AsyncQueue async;
};

Client::Client(const ClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Response> Client::ComputeTopK(const Request& request,
                                     const CallOptions& options) const {
  if (request.tensor() &&
      options.stream.value_or(request.tensor()->size() > kStreamedBytes)) {
    grpc::CompletionQueue queue;
    TensorCall call(*impl_, queue, request);
    if (Status s = call.Run(options); !s.ok()) return s;
    if (call.response()) return Checked(request.message(), *call.response());
    return BadAnswer("", "the stream ended without a header");
  }
  if (Status s = CheckSize(request); !s.ok()) return s;
  Result<v1::TopKResponse> answer = Ask<v1::TopKResponse>(
      *impl_, kComputeTopK, RequestPieces(request), options);
  if (!answer.ok()) return answer.status();
  return Checked(request.message(), *answer);
}

void Client::ComputeTopK(const Request& request, const CallOptions& options,
                         std::function<void(Result<Response>)> done) const {
  if (Status s = CheckSize(request); !s.ok()) return done(std::move(s));
  impl_->async.StartThreads();
  (new AsyncCall(*impl_, impl_->async, request, options, std::move(done)))
      ->Start();
}

Status Client::ComputeTopKMany(
    std::span<const Request> requests,
    const std::function<void(size_t, Result<Response>)>& done,
    const CallOptions& options) const {
  grpc::CompletionQueue queue;
  ManyCall call(*impl_, queue, requests, done);
  for (const Request& request : requests) {
    if (Status s = CheckSize(request); !s.ok()) return call.Finish(s);
  }
  return call.Finish(call.Run(options));
}

Result<v1::Capabilities> Client::GetCapabilities(
    const CallOptions& options) const {
  return Ask<v1::Capabilities>(*impl_, kGetCapabilities,
                               PiecesOf(v1::GetCapabilitiesRequest()), options);
}

Result<bool> Client::IsServing(const std::string& service,
                               const CallOptions& options) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto response = Ask<grpc::health::v1::HealthCheckResponse>(
      *impl_, "/grpc.health.v1.Health/Check", PiecesOf(request), options,
      /*retries=*/false);
  if (!response.ok()) return response.status();
  return response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace topk
