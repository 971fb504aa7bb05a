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

/// A method whose messages hold no tensors.
struct SimpleMethod {
  /// Parses a small message and serializes the response.
  std::function<Status(grpc::ByteBuffer& message, grpc::ByteBuffer& response,
                       const Caller& caller)>
      answer;
  /// The CPU time of answer(). If 0, it runs on the poller.
  int64_t nanoseconds = 0;
};

/// Adds a method to the router. The service must outlive the router.
void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, SimpleMethod method);

/// As above. `answer` is called with the parsed request, the response to fill
/// and the caller, and returns a status.
template <class Request, class Response, class Answer>
void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, Answer answer,
                     int64_t nanoseconds = 0) {
  const auto parse_and_answer = [answer = std::move(answer)](
                                    grpc::ByteBuffer& message,
                                    grpc::ByteBuffer& to,
                                    const Caller& caller) -> Status {
    Request request;
    if (Status s = ReadMessage(message, request); !s.ok()) return s;
    Response response;
    if (Status s = answer(request, response, caller); !s.ok()) return s;
    CopyMessage(response).Swap(&to);
    return {};
  };
  AddSimpleMethod(router, service, path, {parse_and_answer, nanoseconds});
}

}  // namespace topk
