#include "client/topk_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>

#include "client/channel.h"
#include "client/rpc_error.h"
#include "core/base/text.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {
namespace {

// Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;
// protobuf has no larger messages, and gRPC 1.51 aborts on one.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

Status CheckSize(const v1::TopKRequest& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= kMaxMessageBytes) return {};
  return ResourceExhausted(
      "REQUEST_TOO_LARGE", "tensor.data",
      Cat("a request of ", bytes, " bytes is no message, whose limit is ",
          kMaxMessageBytes, "; StreamTopK has none"));
}

Status BadAnswer(std::string message) {
  return {Code::kInternal, "BAD_ANSWER", "", std::move(message)};
}

// Adds a message of a streamed answer to what has come.
Status Collect(v1::TopKResponseChunk& chunk, bool& has_header,
               v1::TopKResponse& response) {
  if (chunk.has_header() == has_header) {
    return BadAnswer(has_header ? "the server sent a second header"
                                : "the server sent no header first");
  }
  switch (chunk.content_case()) {
    case v1::TopKResponseChunk::kHeader:
      response = std::move(*chunk.mutable_header());
      has_header = true;
      return {};
    case v1::TopKResponseChunk::kValues:
      response.mutable_values()->mutable_data()->append(chunk.values());
      return {};
    case v1::TopKResponseChunk::kIndices:
      response.mutable_indices()->mutable_data()->append(chunk.indices());
      return {};
    default:
      return BadAnswer("the server sent an empty message");
  }
}

}  // namespace

struct Client::Impl {
  explicit Impl(const ClientOptions& client_options)
      : options(client_options),
        topk(v1::TopKService::NewStub(
            Connect(client_options, ToUnhealthy::kNo))),
        // Whoever asks a server that does not serve wants to hear just that.
        health(grpc::health::v1::Health::NewStub(
            Connect(client_options, ToUnhealthy::kYes))) {}

  void SetDeadline(const CallOptions& call, grpc::ClientContext& context) {
    context.set_deadline(
        std::chrono::system_clock::now() +
        (call.deadline.count() > 0 ? call.deadline : options.deadline));
  }

  ClientOptions options;
  std::unique_ptr<v1::TopKService::Stub> topk;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

Client::Client(const ClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Result<v1::TopKResponse> Client::ComputeTopK(const v1::TopKRequest& request,
                                             const CallOptions& options) const {
  if (Status s = CheckSize(request); !s.ok()) return s;
  grpc::ClientContext context;
  impl_->SetDeadline(options, context);
  v1::TopKResponse response;
  const grpc::Status status =
      impl_->topk->ComputeTopK(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

Result<v1::TopKResponse> Client::StreamTopK(const v1::TopKRequest& header,
                                            std::span<const std::byte> tensor,
                                            const CallOptions& options) const {
  grpc::ClientContext context;
  impl_->SetDeadline(options, context);
  const auto stream = impl_->topk->StreamTopK(&context);
  v1::TopKRequestChunk piece;
  *piece.mutable_header() = header;
  bool open = stream->Write(piece);
  // A failed write means that the server has ended the call: its status says
  // why, below.
  for (size_t begin = 0; open && begin < tensor.size(); begin += kPieceBytes) {
    const auto part =
        tensor.subspan(begin, std::min(kPieceBytes, tensor.size() - begin));
    piece.set_data(part.data(), part.size());
    open = stream->Write(piece);
    if (open && options.progress) {
      options.progress(static_cast<int64_t>(begin + part.size()),
                       static_cast<int64_t>(tensor.size()));
    }
  }
  stream->WritesDone();

  v1::TopKResponse response;
  v1::TopKResponseChunk chunk;
  bool has_header = false;
  Status bad;
  while (bad.ok() && stream->Read(&chunk)) {
    bad = Collect(chunk, has_header, response);
  }
  if (!bad.ok()) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (!bad.ok()) return bad;
  if (!status.ok()) return FromGrpc(status);
  if (!has_header) return BadAnswer("the server sent no answer");
  return response;
}

std::vector<Result<v1::TopKResponse>> Client::ComputeTopKMany(
    std::span<const v1::TopKRequest> requests,
    const CallOptions& options) const {
  grpc::ClientContext context;
  impl_->SetDeadline(options, context);
  const auto stream = impl_->topk->ComputeTopKMany(&context);
  std::vector<Status> unsent(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    unsent[i] = CheckSize(requests[i]);
  }
  std::vector<Result<v1::TopKResponse>> results;
  results.reserve(requests.size());
  // Flow control stops both ways once nobody reads: write on a thread of its
  // own.
  std::thread writer([&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (unsent[i].ok() && !stream->Write(requests[i])) break;
    }
    stream->WritesDone();
  });
  // Moves on to the next request that has an answer to wait for.
  const auto has_next = [&] {
    while (results.size() < requests.size() && !unsent[results.size()].ok()) {
      results.emplace_back(unsent[results.size()]);
    }
    return results.size() < requests.size();
  };
  v1::TopKResult result;
  bool too_many = false;
  while (!too_many && stream->Read(&result)) {
    if (!has_next()) {
      too_many = true;
    } else if (result.has_response()) {
      results.emplace_back(std::move(*result.mutable_response()));
    } else if (result.error().code() != 0) {
      results.emplace_back(FromRpc(result.error()));
    } else {
      results.emplace_back(BadAnswer("the server sent an empty result"));
    }
  }
  if (too_many) context.TryCancel();
  writer.join();
  const grpc::Status status = stream->Finish();
  if (too_many) {
    // Which of them belongs to which request is anybody's guess.
    results.assign(requests.size(),
                   BadAnswer("the server sent too many results"));
  }
  const Status rest = status.ok() ? BadAnswer("the server sent too few results")
                                  : FromGrpc(status);
  while (has_next()) results.emplace_back(rest);
  return results;
}

Result<v1::Capabilities> Client::GetCapabilities(
    const CallOptions& options) const {
  grpc::ClientContext context;
  impl_->SetDeadline(options, context);
  v1::Capabilities capabilities;
  const grpc::Status status = impl_->topk->GetCapabilities(
      &context, v1::GetCapabilitiesRequest(), &capabilities);
  if (!status.ok()) return FromGrpc(status);
  return capabilities;
}

Result<bool> Client::IsServing(const std::string& service,
                               const CallOptions& options) const {
  grpc::ClientContext context;
  impl_->SetDeadline(options, context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      impl_->health->Check(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace topk
