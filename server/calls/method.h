// The methods of a server. They outlive their calls.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "server/calls/codec.h"
#include "server/calls/raw_message.h"
#include "server/calls/raw_service.h"
#include "server/calls/write_message.h"
#include "server/security/authenticator.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Any method.
struct CallMethod {
  /// Requests the next call from gRPC, which returns the tag with it.
  std::function<void(grpc::GenericServerContext&, RawStream&,
                     grpc::ServerCompletionQueue&, void* tag)>
      request;
  /// "/package.Service/Method", or "" for all methods that do not exist.
  const char* path;
  /// Counts the calls.
  const RpcMetrics::Method& series;
};

/// Returns the method of a service at `index` of its paths.
inline CallMethod MethodOf(RawService& service, size_t index,
                           const RpcMetrics& metrics) {
  const char* const path = service.path(index);
  return {
      [&service, index](grpc::GenericServerContext& context, RawStream& stream,
                        grpc::ServerCompletionQueue& queue, void* tag) {
        service.Request(static_cast<int>(index), context, stream, queue, tag);
      },
      path, metrics.Find(path)};
}

/// A method whose requests are computed.
struct ComputeMethod : CallMethod {
  /// Returns the codec of one request.
  std::function<std::unique_ptr<Codec>()> make_codec;
};

/// A method whose messages hold no tensors.
struct SimpleMethod : CallMethod {
  /// Reads a small message and writes the response.
  std::function<Status(grpc::ByteBuffer& message, grpc::ByteBuffer& response,
                       const Caller& caller)>
      answer;
  /// The CPU time that this may take; 0: too little for a worker.
  int64_t nanoseconds = 0;
};

/// Returns SimpleMethod::answer for a function that is called with the parsed
/// request, the response to fill and the caller, and returns a status.
template <class Request, class Response, class Function>
auto AnswerMessages(Function function) {
  return [function = std::move(function)](grpc::ByteBuffer& message,
                                          grpc::ByteBuffer& to,
                                          const Caller& caller) -> Status {
    Request request;
    if (Status s = ReadMessage(message, request); !s.ok()) return s;
    Response response;
    if (Status s = function(request, response, caller); !s.ok()) return s;
    CopyMessage(response).Swap(&to);
    return {};
  };
}

}  // namespace topk
