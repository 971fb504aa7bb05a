#include "client/topk_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "client/bytes_call.h"
#include "client/channel.h"
#include "client/credentials.h"
#include "client/expected_answer.h"
#include "client/receive_limit.h"
#include "client/retry.h"
#include "client/rpc_error.h"
#include "client/streamed_answer.h"
#include "core/base/text.h"
#include "core/security/local_address.h"
#include "core/wire/message_pieces.h"
#include "core/wire/methods.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace topk {
namespace {

using std::chrono::system_clock;

// Larger tensors are streamed. One caller waits for 64 KiB 176 us in a message
// and 190 in a stream, for 1 MiB 608 and 418, for 64 MiB 27 ms and 16.
constexpr size_t kStreamedBytes = size_t{512} << 10;
// Measured: 1 MiB messages move bytes fastest.
constexpr size_t kChunkBytes = size_t{1} << 20;
// Requests up to this size are sent without asking for the server's limit of
// messages: none that is useful is below.
constexpr size_t kLargeBytes = size_t{48} << 10;
// The least limit that a server may have.
constexpr int64_t kMinLimit = 1024;
// Upper bound on the bytes around the data in a message.
constexpr size_t kFieldBytes = 32;
// As good as no deadline; the clock's own range is not much longer.
constexpr std::chrono::hours kMaxDeadline{24 * 365};
// Upper bound on the bytes of capabilities.
constexpr int64_t kMaxCapabilities = int64_t{1} << 20;
// protobuf has no larger messages, and gRPC 1.51 aborts on one.
constexpr int64_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

Status CheckSize(size_t bytes, int64_t limit) {
  if (bytes <= static_cast<size_t>(limit)) return {};
  return ResourceExhausted(
      "REQUEST_TOO_LARGE", "tensor.data",
      StrCat("a request message of ", bytes,
             " bytes exceeds the server's limit ", "of ", limit,
             " (--max-message-bytes); StreamTopK has no limit"));
}

// gRPC may send a request although its deadline has passed.
Status CheckTime(system_clock::time_point deadline) {
  if (system_clock::now() < deadline) return {};
  return {Code::kDeadlineExceeded, "", "",
          "the deadline passed before the request was sent"};
}

// Whether gRPC reset a stream because of ReceiveLimit.
bool IsTooLong(const Status& status) {
  return status.reason.empty() &&
         status.message.find("Buffers full") != std::string::npos;
}

}  // namespace

struct Client::Impl {
  explicit Impl(const ClientOptions& client_options)
      : options(client_options),
        setup(Client::Check(client_options)),
        // One object for both channels, which then share a connection.
        credentials(setup.ok() ? MakeCredentials(client_options)
                               : grpc::InsecureChannelCredentials()),
        token(client_options.token_file),
        receive_limit(ReceiveLimit::Of(client_options.target)),
        channel(Connect(client_options, credentials, *receive_limit,
                        ToUnhealthy::kNo)),
        calls(channel),
        // The health check also reaches a server that does not serve.
        health(grpc::health::v1::Health::NewStub(Connect(
            client_options, credentials, *receive_limit, ToUnhealthy::kYes))) {}

  system_clock::time_point DeadlineOf(const CallOptions& call) const {
    const std::chrono::milliseconds wanted =
        call.deadline.value_or(options.deadline);
    return system_clock::now() +
           std::clamp<std::chrono::milliseconds>(
               wanted, std::chrono::milliseconds(0), kMaxDeadline);
  }

  // Returns the server's limit of messages, in bytes, as far as a request of
  // `bytes` bytes must heed it. Asks once for all calls.
  int64_t LimitFor(size_t bytes, system_clock::time_point deadline) {
    const int64_t known = limit.load(std::memory_order_relaxed);
    if (known != 0) return known;
    if (bytes <= kLargeBytes) return kMaxMessageBytes;
    const Result<v1::Capabilities> capabilities = AskCapabilities(deadline);
    if (!capabilities.ok()) {
      // The caller's own call succeeds, or reports its error.
      if (capabilities.status().code == Code::kUnimplemented) {
        limit = kMaxMessageBytes;
      }
      return kMaxMessageBytes;
    }
    const int64_t told = capabilities->limits().max_message_bytes();
    return limit = told == 0 ? kMaxMessageBytes
                             : std::clamp(told, kMinLimit, kMaxMessageBytes);
  }

  // RESOURCE_EXHAUSTED if a message of `bytes` bytes exceeds the limit.
  Status CheckMessage(size_t bytes, system_clock::time_point deadline) {
    if (Status s = CheckSize(bytes, kMaxMessageBytes); !s.ok()) return s;
    return CheckSize(bytes, LimitFor(bytes, deadline));
  }

  // Returns what prepares all attempts of a call.
  auto Prepares(system_clock::time_point deadline) {
    return [this, deadline](grpc::ClientContext& context) {
      if (std::string header = token.Header(); !header.empty()) {
        context.AddMetadata("authorization", header);
      }
      if (!options.traceparent.empty()) {
        context.AddMetadata("traceparent", options.traceparent);
      }
      context.set_deadline(deadline);
    };
  }

  // Sends a request's pieces in one message. `max_bytes` bounds the response.
  template <class Answer>
  Result<Answer> Ask(Method method, const std::vector<MessagePiece>& request,
                     int64_t max_bytes, system_clock::time_point deadline) {
    grpc::ByteBuffer bytes;
    const Status status = Attempt(
        max_bytes, deadline,
        [&] {
          return CallUnary(calls, PathOf(method), memory, request,
                           Prepares(deadline), bytes);
        },
        [] { return false; });
    if (!status.ok()) return status;
    Answer answer;
    if (Status s = ReadAnswer(bytes, max_bytes, answer); !s.ok()) return s;
    return answer;
  }

  Result<v1::Capabilities> AskCapabilities(system_clock::time_point deadline) {
    return Ask<v1::Capabilities>(Method::kGetCapabilities,
                                 PiecesOf(v1::GetCapabilitiesRequest()),
                                 kMaxCapabilities, deadline);
  }

  // Sends one tensor's request, which has these pieces.
  Result<v1::TopKResponse> AskTopK(const v1::TopKRequest& header,
                                   const std::vector<MessagePiece>& request,
                                   system_clock::time_point deadline) {
    const ExpectedAnswer expected(header);
    Result<v1::TopKResponse> answer = Ask<v1::TopKResponse>(
        Method::kComputeTopK, request, expected.max_message_bytes(), deadline);
    if (!answer.ok()) return answer;
    if (Status s = expected.Check(*answer); !s.ok()) return s;
    return answer;
  }

  // Makes a call of a stream. `rewind` goes back to the first request without
  // a response, and returns whether a part of some response had arrived.
  // `max_bytes` bounds each received message.
  Status Stream(Method method, const StreamHandlers& handlers,
                const std::function<bool()>& rewind, int64_t max_bytes,
                system_clock::time_point deadline) {
    return Attempt(
        max_bytes, deadline,
        [&] {
          return CallStream(calls, PathOf(method), memory, handlers,
                            Prepares(deadline));
        },
        rewind);
  }

  // Streams a tensor in chunks that the server takes.
  Result<v1::TopKResponse> StreamTensor(const v1::TopKRequest& header,
                                        std::span<const std::byte> tensor,
                                        system_clock::time_point deadline);

  // Makes a call until it succeeds or its error is not retried.
  Status Attempt(int64_t max_bytes, system_clock::time_point deadline,
                 const std::function<Status()>& make,
                 const std::function<bool()>& rewind) {
    if (!setup.ok()) return setup;
    const ReceiveLimit::Call allowed(*receive_limit,
                                     std::min(max_bytes, kMaxMessageBytes));
    Attempts attempts(options.max_attempts, deadline);
    while (true) {
      if (Status s = CheckTime(deadline); !s.ok()) return s;
      Status status = make();
      if (status.ok()) return status;
      if (IsTooLong(status)) {
        return BadAnswer("", StrCat("a message longer than any response to the "
                                    "request: ",
                                    status.message));
      }
      const auto then = attempts.Next(status, rewind());
      if (!then.has_value()) return status;
      // gRPC connects again only while a caller waits for it. The rest of the
      // pause heeds no change of the machine's time.
      const auto wake =
          std::chrono::steady_clock::now() + (*then - system_clock::now());
      channel->WaitForConnected(*then);
      std::this_thread::sleep_until(wake);
    }
  }

  ClientOptions options;
  const Status setup;  // an error: nothing is sent
  const std::shared_ptr<grpc::ChannelCredentials> credentials;
  TokenFile token;
  // A Unix socket whose server stands still cannot be given up: nobody would
  // know when the caller's memory is its own again.
  const Memory memory =
      IsUnixAddress(options.target) ? Memory::kCopied : Memory::kBorrowed;
  const std::shared_ptr<ReceiveLimit> receive_limit;
  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub calls;
  std::atomic<int64_t> limit = 0;  // of messages, in bytes; 0 = not known
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

Status Client::Check(const ClientOptions& options) {
  return CheckOptions(options,
                      [](std::string_view name) { return std::string(name); });
}

Client::Client(const ClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Result<v1::TopKResponse> Client::ComputeTopK(const v1::TopKRequest& request,
                                             const CallOptions& options) const {
  const auto deadline = impl_->DeadlineOf(options);
  if (Status s = impl_->CheckMessage(request.ByteSizeLong(), deadline);
      !s.ok()) {
    return s;
  }
  return impl_->AskTopK(request, PiecesOf(request), deadline);
}

Result<v1::TopKResponse> Client::ComputeSeparateTensor(
    const v1::TopKRequest& header, std::span<const std::byte> tensor,
    const CallOptions& options) const {
  const auto deadline = impl_->DeadlineOf(options);
  if (options.stream.value_or(tensor.size() > kStreamedBytes)) {
    return impl_->StreamTensor(header, tensor, deadline);
  }
  const Status fits = impl_->CheckMessage(
      header.ByteSizeLong() + tensor.size() + kFieldBytes, deadline);
  if (!fits.ok()) {
    if (options.stream.has_value()) return fits;
    return impl_->StreamTensor(header, tensor, deadline);
  }
  return impl_->AskTopK(header, PiecesOf(header, tensor), deadline);
}

Result<v1::TopKResponse> Client::StreamTopK(const v1::TopKRequest& header,
                                            std::span<const std::byte> tensor,
                                            const CallOptions& options) const {
  return impl_->StreamTensor(header, tensor, impl_->DeadlineOf(options));
}

Result<v1::TopKResponse> Client::Impl::StreamTensor(
    const v1::TopKRequest& header, std::span<const std::byte> tensor,
    system_clock::time_point deadline) {
  const auto room =
      static_cast<size_t>(LimitFor(tensor.size(), deadline)) - kFieldBytes;
  // Chunks begin at multiples of 64 bytes, so that none divides an element.
  const size_t chunk_bytes = std::min(kChunkBytes, room / 64 * 64);
  using Message = StreamHandlers::Message;
  v1::TopKRequestChunk first;
  *first.mutable_header() = header;
  bool begun = false;
  size_t sent = 0;
  StreamHandlers handlers;
  handlers.next = [&]() -> std::optional<Message> {
    if (!begun) {
      begun = true;
      return Message{PiecesOf(first), false};
    }
    if (sent == tensor.size()) return {};
    const auto part =
        tensor.subspan(sent, std::min(chunk_bytes, tensor.size() - sent));
    sent += part.size();
    return Message{PiecesOf(v1::TopKRequestChunk::kDataFieldNumber, part),
                   false};
  };
  const ExpectedAnswer expected(header);
  StreamedAnswer answer(expected);
  handlers.receive = [&](grpc::ByteBuffer& bytes) {
    v1::TopKResponseChunk chunk;
    if (Status s = ReadAnswer(bytes, expected.max_message_bytes(), chunk);
        !s.ok()) {
      return s;
    }
    return answer.Add(chunk);
  };
  const auto rewind = [&] {
    sent = 0;
    begun = false;
    return answer.Clear();
  };
  const Status status = Stream(Method::kStreamTopK, handlers, rewind,
                               expected.max_message_bytes(), deadline);
  if (!status.ok()) return status;
  return answer.Take();
}

std::vector<Result<v1::TopKResponse>> Client::ComputeTopKMany(
    std::span<const v1::TopKRequest> requests,
    const CallOptions& options) const {
  using Message = StreamHandlers::Message;
  // The number of requests that are sent together.
  constexpr size_t kTogether = 32;
  const auto deadline = impl_->DeadlineOf(options);
  std::vector<Status> unsent(requests.size());
  int64_t max_bytes = 0;
  int64_t limit = impl_->LimitFor(0, deadline);
  bool asked = false;  // once: a server that does not answer costs seconds
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t bytes = requests[i].ByteSizeLong();
    if (bytes > kLargeBytes && !std::exchange(asked, true)) {
      limit = impl_->LimitFor(bytes, deadline);
    }
    unsent[i] = CheckSize(bytes, limit);
    max_bytes =
        std::max(max_bytes, ExpectedAnswer(requests[i]).max_message_bytes());
  }
  size_t next = 0;
  StreamHandlers handlers;
  handlers.next = [&]() -> std::optional<Message> {
    while (next < requests.size() && !unsent[next].ok()) ++next;
    if (next == requests.size()) return {};
    const v1::TopKRequest& request = requests[next++];
    return Message{PiecesOf(request), next % kTogether != 0};
  };
  std::vector<Result<v1::TopKResponse>> results;
  results.reserve(requests.size());
  // Moves on to the next request that has an answer to wait for.
  const auto has_next = [&] {
    while (results.size() < next && !unsent[results.size()].ok()) {
      results.emplace_back(unsent[results.size()]);
    }
    return results.size() < next;
  };
  bool too_many = false;
  handlers.receive = [&](grpc::ByteBuffer& bytes) -> Status {
    v1::TopKResult result;
    if (Status s = ReadAnswer(bytes, max_bytes, result); !s.ok()) return s;
    if (!has_next()) {
      too_many = true;
      return BadAnswer("", "more results than requests");
    }
    const v1::TopKRequest& request = requests[results.size()];
    if (!result.request_id().empty() &&
        result.request_id() != request.request_id()) {
      return BadAnswer("request_id",
                       StrCat("request_id ", Quote(result.request_id()),
                              ", expected ", Quote(request.request_id())));
    }
    if (result.has_response()) {
      const Status s = ExpectedAnswer(request).Check(result.response());
      if (!s.ok()) return s;
      results.emplace_back(std::move(*result.mutable_response()));
    } else if (result.error().code() != 0) {
      results.emplace_back(FromRpc(result.error()));
    } else {
      return BadAnswer("", "an empty result");
    }
    return {};
  };
  size_t before = 0;  // answers of earlier streams
  const auto rewind = [&] {
    next = results.size();
    return std::exchange(before, next) < next;
  };
  Status rest = impl_->Stream(Method::kComputeTopKMany, handlers, rewind,
                              max_bytes, deadline);
  if (too_many) {
    // No result can be attributed to a request.
    results.assign(requests.size(), rest);
  }
  if (rest.ok()) rest = BadAnswer("", "fewer results than requests");
  next = requests.size();
  while (has_next()) results.emplace_back(rest);
  return results;
}

Result<v1::Capabilities> Client::GetCapabilities(
    const CallOptions& options) const {
  return impl_->AskCapabilities(impl_->DeadlineOf(options));
}

Result<bool> Client::IsServing(const std::string& service,
                               const CallOptions& options) const {
  if (!impl_->setup.ok()) return impl_->setup;
  const auto deadline = impl_->DeadlineOf(options);
  if (Status s = CheckTime(deadline); !s.ok()) return s;
  grpc::ClientContext context;
  impl_->Prepares(deadline)(context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      impl_->health->Check(&context, request, &response);
  if (!status.ok()) {
    Status end = FromGrpc(status, context);
    end.retry_after = std::max(end.retry_after, std::chrono::milliseconds(0));
    return end;
  }
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace topk
