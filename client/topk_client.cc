#include "client/topk_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>

#include "core/base/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {
namespace {

// Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;
// gRPC stops retrying, silently, once a call has sent more than this; its
// default is 256 KiB. As much as the server's largest unary message.
constexpr int kRetryBufferBytes = (64 << 20) + (1 << 20);

std::string ServiceConfig(int max_attempts) {
  const std::string retry =
      max_attempts <= 1
          ? ""
          : Cat(R"(, "retryPolicy": {"maxAttempts": )", max_attempts,
                R"(, "initialBackoff": "0.05s", "maxBackoff": "1s",)"
                R"( "backoffMultiplier": 2,)"
                R"( "retryableStatusCodes": ["UNAVAILABLE"]})");
  return Cat(R"({"loadBalancingConfig": [{"round_robin": {}}],)"
             R"( "healthCheckConfig": {"serviceName": "topk.v1.TopKService"},)"
             R"( "methodConfig": [{"name": [{"service":)"
             R"( "topk.v1.TopKService"}])",
             retry, "}]}");
}

// A list of addresses is gRPC's ipv4 scheme.
std::string Target(const std::string& target) {
  const bool list = target.find(',') != std::string::npos &&
                    target.find_first_of("/") == std::string::npos &&
                    target.rfind("ipv", 0) != 0;
  return list ? "ipv4:" + target : target;
}

std::shared_ptr<grpc::Channel> Connect(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(
      ServiceConfig(std::clamp(options.max_attempts, 1, 5)));
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, kRetryBufferBytes);
  return grpc::CreateCustomChannel(
      Target(options.target), grpc::InsecureChannelCredentials(), arguments);
}

// Fills in reason and field from google.rpc details.
void ReadDetails(const google::rpc::Status& rpc, Status& status) {
  for (const google::protobuf::Any& detail : rpc.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&info)) {
      status.reason = info.reason();
      const auto field = info.metadata().find("field");
      if (field != info.metadata().end()) status.field = field->second;
    } else if (detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      status.field = bad.field_violations(0).field();
    }
  }
}

Status FromRpc(const google::rpc::Status& rpc) {
  Status status{static_cast<Code>(rpc.code()), "", "", rpc.message()};
  ReadDetails(rpc, status);
  return status;
}

Status FromGrpc(const grpc::Status& grpc) {
  Status status{static_cast<Code>(grpc.error_code()), "", "",
                grpc.error_message()};
  google::rpc::Status rpc;
  if (rpc.ParseFromString(grpc.error_details())) ReadDetails(rpc, status);
  return status;
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
        channel(Connect(client_options)),
        topk(v1::TopKService::NewStub(channel)),
        health(grpc::health::v1::Health::NewStub(channel)) {}

  void SetDeadline(const CallOptions& call, grpc::ClientContext& context) {
    context.set_deadline(
        std::chrono::system_clock::now() +
        (call.deadline.count() > 0 ? call.deadline : options.deadline));
  }

  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::TopKService::Stub> topk;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

Client::Client(const ClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Result<v1::TopKResponse> Client::ComputeTopK(const v1::TopKRequest& request,
                                             const CallOptions& options) const {
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
  // Flow control stops both ways once nobody reads: write on a thread of its
  // own.
  std::thread writer([&] {
    for (const v1::TopKRequest& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
  });
  std::vector<Result<v1::TopKResponse>> results;
  results.reserve(requests.size());
  v1::TopKResult result;
  while (results.size() < requests.size() && stream->Read(&result)) {
    if (result.has_response()) {
      results.emplace_back(std::move(*result.mutable_response()));
    } else if (result.error().code() != 0) {
      results.emplace_back(FromRpc(result.error()));
    } else {
      results.emplace_back(BadAnswer("the server sent an empty result"));
    }
  }
  writer.join();
  const grpc::Status status = stream->Finish();
  const Status rest = status.ok() ? BadAnswer("the server sent too few results")
                                  : FromGrpc(status);
  while (results.size() < requests.size()) results.emplace_back(rest);
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
