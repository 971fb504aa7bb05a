// Unary calls without tensors, such as GetCapabilities.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "server/calls/call_router.h"
#include "server/calls/raw_message.h"
#include "server/calls/topk_service.h"
#include "server/calls/write_message.h"

namespace topk {

/// Parses a small message and serializes the response.
using SimpleAnswer =
    std::function<Status(grpc::ByteBuffer& message, grpc::ByteBuffer& response,
                         const Caller& caller)>;

/// Adds a method whose messages hold no tensors. `nanoseconds` is the CPU time
/// of `answer`. A poller calls `answer` if `nanoseconds` is 0 and the message
/// is small, otherwise a worker does. The service must outlive the router.
void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, SimpleAnswer answer,
                     int64_t nanoseconds);

/// Like AddSimpleMethod() above, but `answer` takes the parsed request, the
/// response to fill and the caller, and returns a status.
template <class Request, class Response, class Answer>
void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, Answer answer,
                     int64_t nanoseconds = 0) {
  AddSimpleMethod(
      router, service, path,
      [answer = std::move(answer)](grpc::ByteBuffer& message,
                                   grpc::ByteBuffer& to,
                                   const Caller& caller) -> Status {
        Request request;
        if (Status s = ReadMessage(message, request); !s.ok()) return s;
        Response response;
        if (Status s = answer(request, response, caller); !s.ok()) return s;
        CopyMessage(response).Swap(&to);
        return {};
      },
      nanoseconds);
}

}  // namespace topk
