#include "server/topk_service.h"

#include <algorithm>
#include <new>
#include <string>

#include "server/logging.h"
#include "server/status_map.h"

namespace topk {
namespace {

using ResponseStream =
    grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>;

// An answer up to this size comes whole in the header, a larger one in pieces
// of it. Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;

// Runs fn and turns the one exception that our modules let through into a
// status: the process has no memory for this request now, but may later.
template <class Fn>
auto CatchBadAlloc(const Fn& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("OUT_OF_MEMORY", "",
                             "the server has no memory for this request");
  }
}

Status Cancelled() {
  return {Code::kCancelled, "CANCELLED", "", "the client cancelled the call"};
}

// Reads the first message of a stream, its header.
Result<v1::TopKRequest> ReadHeader(ResponseStream& stream) {
  v1::TopKRequestChunk chunk;
  if (!stream.Read(&chunk) || !chunk.has_header()) {
    return InvalidArgument("HEADER_MISSING", "header",
                           "the first message of a stream must be the header");
  }
  return std::move(*chunk.mutable_header());
}

// Feeds the messages after the header until the client has sent all.
Status FeedAll(ResponseStream& stream, TensorStream& tensor,
               int64_t& tensor_bytes) {
  v1::TopKRequestChunk chunk;
  while (stream.Read(&chunk)) {
    if (chunk.has_header()) {
      return InvalidArgument("HEADER_REPEATED", "header",
                             "a stream has one header, its first message");
    }
    const std::string& data = chunk.data();
    tensor_bytes += static_cast<int64_t>(data.size());
    if (Status s = tensor.Feed(std::as_bytes(std::span(data))); !s.ok()) {
      return s;
    }
  }
  return {};
}

// Sends a tensor's data in pieces; `set` puts one into its field. False once
// the client is gone.
template <class Set>
bool SendPieces(ResponseStream& stream, const std::string& data,
                const Set& set) {
  for (size_t begin = 0; begin < data.size(); begin += kPieceBytes) {
    v1::TopKResponseChunk chunk;
    set(chunk, data.substr(begin, kPieceBytes));
    if (!stream.Write(chunk)) return false;
  }
  return true;
}

// Sends an answer: whole if it is small, else a header, then values, then
// indices.
bool SendAnswer(ResponseStream& stream, v1::TopKResponse response) {
  v1::TopKResponseChunk chunk;
  const size_t bytes =
      response.values().data().size() + response.indices().data().size();
  if (bytes <= kPieceBytes) {
    *chunk.mutable_header() = std::move(response);
    return stream.Write(chunk);
  }
  std::string values;
  std::string indices;
  if (response.has_values()) {
    values = std::move(*response.mutable_values()->mutable_data());
    response.mutable_values()->clear_data();
  }
  if (response.has_indices()) {
    indices = std::move(*response.mutable_indices()->mutable_data());
    response.mutable_indices()->clear_data();
  }
  *chunk.mutable_header() = std::move(response);
  return stream.Write(chunk) &&
         SendPieces(stream, values,
                    [](v1::TopKResponseChunk& to, std::string piece) {
                      to.set_values(std::move(piece));
                    }) &&
         SendPieces(stream, indices,
                    [](v1::TopKResponseChunk& to, std::string piece) {
                      to.set_indices(std::move(piece));
                    });
}

}  // namespace

struct TopKService::Call {
  std::string_view method;
  const grpc::ServerContext& context;
};

void TopKService::Record(const Call& call, const v1::TopKRequest& request,
                         int64_t tensor_bytes,
                         const Result<v1::TopKResponse>& outcome) {
  static const Status kOk;
  const Status& status = outcome.ok() ? kOk : outcome.status();
  AccessRecord record;
  if (outcome.ok()) {
    const int64_t nanoseconds = outcome->execution().compute_nanoseconds();
    metrics_.Record(request, Code::kOk, tensor_bytes, nanoseconds);
    record.compute_microseconds = nanoseconds / 1000;
    record.response_bytes = static_cast<int64_t>(
        outcome->values().data().size() + outcome->indices().data().size());
  } else {
    metrics_.Record(request, status.code, tensor_bytes, 0);
  }
  if (!log_.should_log(status.ok() ? spdlog::level::debug
                                   : spdlog::level::info)) {
    return;  // peer() makes a string
  }
  const std::string peer = call.context.peer();
  record.method = call.method;
  record.peer = peer;
  record.request_id = request.request_id();
  record.code = CodeName(status.code);
  record.message = status.message;
  record.request_bytes = tensor_bytes;
  LogAccess(log_, record);
}

grpc::Status TopKService::ComputeTopK(grpc::ServerContext* context,
                                      const v1::TopKRequest* request,
                                      v1::TopKResponse* response) {
  Result<v1::TopKResponse> outcome = CatchBadAlloc(
      [&]() -> Result<v1::TopKResponse> { return engine_.Compute(*request); });
  Record({"ComputeTopK", *context}, *request,
         static_cast<int64_t>(request->tensor().data().size()), outcome);
  if (!outcome.ok()) return ToGrpcStatus(outcome.status());
  *response = *std::move(outcome);
  return grpc::Status::OK;
}

grpc::Status TopKService::StreamTopK(grpc::ServerContext* context,
                                     ResponseStream* stream) {
  v1::TopKRequest header;
  int64_t tensor_bytes = 0;
  Result<v1::TopKResponse> outcome =
      CatchBadAlloc([&]() -> Result<v1::TopKResponse> {
        Result<v1::TopKRequest> read = ReadHeader(*stream);
        if (!read.ok()) return read.status();
        header = *std::move(read);
        Result<TensorStream> tensor = TensorStream::Start(engine_, header);
        if (!tensor.ok()) return tensor.status();
        Status fed = FeedAll(*stream, *tensor, tensor_bytes);
        // A cancelled stream ends as if it were complete.
        if (context->IsCancelled()) return Cancelled();
        if (!fed.ok()) return fed;
        return tensor->Finish();
      });
  Record({"StreamTopK", *context}, header, tensor_bytes, outcome);
  if (!outcome.ok()) return ToGrpcStatus(outcome.status());
  if (!SendAnswer(*stream, *std::move(outcome))) {
    return ToGrpcStatus(Cancelled());
  }
  return grpc::Status::OK;
}

grpc::Status TopKService::ComputeTopKMany(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::TopKResult, v1::TopKRequest>* stream) {
  v1::TopKRequest request;
  while (stream->Read(&request)) {
    Result<v1::TopKResponse> outcome = CatchBadAlloc(
        [&]() -> Result<v1::TopKResponse> { return engine_.Compute(request); });
    Record({"ComputeTopKMany", *context}, request,
           static_cast<int64_t>(request.tensor().data().size()), outcome);
    v1::TopKResult result;
    result.set_request_id(request.request_id());
    if (outcome.ok()) {
      *result.mutable_response() = *std::move(outcome);
    } else {
      *result.mutable_error() = ToRpcStatus(outcome.status());
    }
    if (!stream->Write(result)) return ToGrpcStatus(Cancelled());
  }
  return context->IsCancelled() ? ToGrpcStatus(Cancelled()) : grpc::Status::OK;
}

grpc::Status TopKService::GetCapabilities(grpc::ServerContext*,
                                          const v1::GetCapabilitiesRequest*,
                                          v1::Capabilities* response) {
  *response = engine_.GetCapabilities();
  response->mutable_limits()->set_max_message_bytes(max_message_bytes_);
  response->mutable_limits()->set_shared_memory(false);
  return grpc::Status::OK;
}

}  // namespace topk
