#include "server/topk_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <new>
#include <string>
#include <utility>

#include "server/logging.h"
#include "server/status_map.h"

namespace topk {
namespace {

// Runs fn and turns the one exception that our modules let through into a
// status: the process has no memory for this request now, but may later.
template <class Fn>
Status CatchBadAlloc(const Fn& fn) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("OUT_OF_MEMORY", "",
                             "the server has no memory for this request");
  }
}

}  // namespace

// One request's way through the service, for the log and the metrics.
struct TopKService::Call {
  std::string_view method;
  const grpc::ServerContext& context;
  int64_t tensor_bytes = 0;
  int64_t answer_bytes = 0;
  int64_t compute_nanoseconds = 0;

  void NoteAnswer(const v1::TopKResponse& answer) {
    answer_bytes = static_cast<int64_t>(answer.values().data().size() +
                                        answer.indices().data().size());
    compute_nanoseconds = answer.execution().compute_nanoseconds();
  }
};

TopKService::TopKService(const Engine& engine, Metrics& metrics,
                         spdlog::logger& log, int64_t max_message_bytes)
    : engine_(engine),
      metrics_(metrics),
      log_(log),
      max_message_bytes_(max_message_bytes) {
  // As the generated constructor does it, with bytes for tensors.
  using grpc::internal::MethodHandler;
  using grpc::internal::RpcMethod;
  const auto add = [this](const char* path, RpcMethod::RpcType type,
                          MethodHandler* handler) {
    AddMethod(new grpc::internal::RpcServiceMethod(path, type, handler));
  };
  add("/topk.v1.TopKService/ComputeTopK", RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<TopKService, grpc::ByteBuffer,
                                           grpc::ByteBuffer>(
          [](TopKService* service, grpc::ServerContext* context,
             const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
            return service->ComputeTopK(*context, *request, *response);
          },
          this));
  add("/topk.v1.TopKService/StreamTopK", RpcMethod::BIDI_STREAMING,
      new grpc::internal::TemplatedBidiStreamingHandler<ChunkStream, false>(
          [this](grpc::ServerContext* context, ChunkStream* stream) {
            return ServeStream(*context, *stream);
          }));
  add("/topk.v1.TopKService/ComputeTopKMany", RpcMethod::BIDI_STREAMING,
      new grpc::internal::TemplatedBidiStreamingHandler<ManyStream, false>(
          [this](grpc::ServerContext* context, ManyStream* stream) {
            return ServeMany(*context, *stream);
          }));
  add("/topk.v1.TopKService/GetCapabilities", RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<
          TopKService, v1::GetCapabilitiesRequest, v1::Capabilities>(
          [](TopKService* service, grpc::ServerContext*,
             const v1::GetCapabilitiesRequest*, v1::Capabilities* response) {
            return service->GetCapabilities(*response);
          },
          this));
}

void TopKService::Record(const Call& call, const v1::TopKRequest& request,
                         const Status& status) {
  metrics_.Record(request, status.code, call.tensor_bytes,
                  call.compute_nanoseconds);
  if (!log_.should_log(status.ok() ? spdlog::level::debug
                                   : spdlog::level::info)) {
    return;  // peer() makes a string
  }
  const std::string peer = call.context.peer();
  AccessRecord record;
  record.method = call.method;
  record.peer = peer;
  record.request_id = request.request_id();
  record.code = CodeName(status.code);
  record.message = status.message;
  record.request_bytes = call.tensor_bytes;
  record.response_bytes = call.answer_bytes;
  record.compute_microseconds = call.compute_nanoseconds / 1000;
  LogAccess(log_, record);
}

Status TopKService::Compute(Call& call,
                            const RawMessage<v1::TopKRequest>& request,
                            v1::TopKResponse& answer) {
  const v1::TopKRequest& message = request.message;
  call.tensor_bytes = static_cast<int64_t>(message.tensor().data().size());
  for (const auto& piece : request.data) {
    call.tensor_bytes += static_cast<int64_t>(piece.size());
  }
  // It may have waited for a thread longer than its client for it. To ask costs
  // 20 us (gRPC looks into its queue), more than to compute what is small.
  constexpr int64_t kWorthAsking = int64_t{1} << 16;
  if (call.tensor_bytes >= kWorthAsking) {
    if (Status s = CheckAlive(call.context); !s.ok()) return s;
  }
  Result<v1::TopKResponse> computed =
      request.data.empty() ? engine_.Compute(message)
                           : engine_.Compute(message, request.data);
  if (!computed.ok()) return computed.status();
  call.NoteAnswer(*computed);
  answer = *std::move(computed);
  return {};
}

grpc::Status TopKService::ComputeTopK(grpc::ServerContext& context,
                                      const grpc::ByteBuffer& request,
                                      grpc::ByteBuffer& response) {
  Call call{"ComputeTopK", context};
  RawMessage<v1::TopKRequest> raw;
  const Status status = CatchBadAlloc([&]() -> Status {
    grpc::ByteBuffer bytes = request;  // a reference to the same slices
    if (Status s = ReadRaw(bytes, raw); !s.ok()) return s;
    v1::TopKResponse answer;
    if (Status s = Compute(call, raw, answer); !s.ok()) return s;
    response = WriteRaw(std::move(answer));
    return {};
  });
  Record(call, raw.message, status);
  return ToGrpcStatus(status);
}

grpc::Status TopKService::ServeStream(grpc::ServerContext& context,
                                      ChunkStream& stream) {
  Call call{"StreamTopK", context};
  v1::TopKRequest header;
  const Status status =
      CatchBadAlloc([&] { return AnswerStream(call, header, stream); });
  Record(call, header, status);
  return ToGrpcStatus(status);
}

Status TopKService::AnswerStream(Call& call, v1::TopKRequest& header,
                                 ChunkStream& stream) {
  if (Status s = ReadHeader(call.context, stream, header); !s.ok()) return s;
  Result<TensorStream> tensor = TensorStream::Start(engine_, header);
  if (!tensor.ok()) return tensor.status();
  if (Status s = FeedAll(call.context, stream, *tensor, call.tensor_bytes);
      !s.ok()) {
    return s;
  }
  Result<v1::TopKResponse> answer = tensor->Finish();
  if (!answer.ok()) return answer.status();
  call.NoteAnswer(*answer);
  return SendAnswer(stream, *std::move(answer));
}

grpc::Status TopKService::ServeMany(grpc::ServerContext& context,
                                    ManyStream& stream) {
  return ToGrpcStatus(
      CatchBadAlloc([&] { return AnswerMany(context, stream); }));
}

Status TopKService::AnswerMany(grpc::ServerContext& context,
                               ManyStream& stream) {
  RawMessage<v1::TopKRequest> request;
  v1::TopKResult result;
  while (true) {
    result.Clear();
    Call call{"ComputeTopKMany", context};
    const Result<bool> read = ReadMessage(context, stream, request);
    if (read.ok() && !*read) return {};
    if (!read.ok() && read.status().code != Code::kInvalidArgument) {
      return read.status();  // the call has ended
    }
    const Status status = !read.ok() ? read.status() : CatchBadAlloc([&] {
      return Compute(call, request, *result.mutable_response());
    });
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    result.set_request_id(request.message.request_id());
    Record(call, request.message, status);
    if (!stream.Write(result)) return CheckAlive(context);
  }
}

grpc::Status TopKService::GetCapabilities(v1::Capabilities& response) const {
  response = engine_.GetCapabilities();
  response.mutable_limits()->set_max_message_bytes(max_message_bytes_);
  response.mutable_limits()->set_shared_memory(false);
  return grpc::Status::OK;
}

}  // namespace topk
