#include "server/topk_service.h"

#include <new>
#include <string>
#include <utility>

#include "server/logging.h"
#include "server/status_map.h"

namespace topk {
namespace {

// The generated service's numbers of the streaming methods, in proto order.
constexpr int kStreamTopK = 1;
constexpr int kComputeTopKMany = 2;

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
  // As the generated constructor does it, with bytes for requests. gRPC's sync
  // API has no public way to say so (WithRawMethod_ is for the async one).
  using grpc::internal::TemplatedBidiStreamingHandler;
  MarkMethodStreamed(
      kStreamTopK,
      new TemplatedBidiStreamingHandler<ChunkStream, false>(
          [this](grpc::ServerContext* context, ChunkStream* stream) {
            return ServeStream(*context, *stream);
          }));
  MarkMethodStreamed(
      kComputeTopKMany,
      new TemplatedBidiStreamingHandler<ManyStream, false>(
          [this](grpc::ServerContext* context, ManyStream* stream) {
            return ServeMany(*context, *stream);
          }));
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

Status TopKService::Compute(Call& call, const v1::TopKRequest& request,
                            v1::TopKResponse& answer) {
  call.tensor_bytes = static_cast<int64_t>(request.tensor().data().size());
  // It may have waited for a thread longer than its client for it.
  if (Status s = CheckAlive(call.context); !s.ok()) return s;
  Result<v1::TopKResponse> computed = engine_.Compute(request);
  if (!computed.ok()) return computed.status();
  call.NoteAnswer(*computed);
  answer = *std::move(computed);
  return {};
}

grpc::Status TopKService::ComputeTopK(grpc::ServerContext* context,
                                      const v1::TopKRequest* request,
                                      v1::TopKResponse* response) {
  Call call{"ComputeTopK", *context};
  const Status status =
      CatchBadAlloc([&] { return Compute(call, *request, *response); });
  Record(call, *request, status);
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
  v1::TopKRequest request;
  v1::TopKResult result;
  while (true) {
    request.Clear();
    result.Clear();
    Call call{"ComputeTopKMany", context};
    const Result<bool> read = ReadMessage(context, stream, request);
    if (Status s = CheckAlive(context); !s.ok()) return s;
    if (read.ok() && !*read) return {};
    const Status status = !read.ok() ? read.status() : CatchBadAlloc([&] {
      return Compute(call, request, *result.mutable_response());
    });
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    result.set_request_id(request.request_id());
    Record(call, request, status);
    if (!stream.Write(result)) return CheckAlive(context);
  }
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
