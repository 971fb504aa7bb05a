// Unary calls.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>
#include <utility>

#include "server/calls/call_router.h"
#include "server/calls/raw_message.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"
#include "server/calls/write_message.h"

namespace topk {

/// A call of ComputeTopK or ModelInfer.
class UnaryCall final : public ServiceCall {
 public:
  /// The service must outlive the call.
  UnaryCall(TopKService& service, Call& call, std::unique_ptr<Codec> codec)
      : ServiceCall(service, call, Kind::kUnary),
        request_(service, admitted(), std::move(codec)) {}

 private:
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void Prepare(Reader reader);
  void PrepareOnWorker();
  void Compute();
  void End(const Status& status);

  Request request_;
};

/// A method whose messages hold no tensors.
struct SimpleMethod {
  /// Parses a small message and serializes the response.
  std::function<Status(grpc::ByteBuffer& message, grpc::ByteBuffer& response,
                       const Caller& caller)>
      answer;
  /// The CPU time of answer(). If 0, it runs on the poller.
  int64_t nanoseconds = 0;
};

/// A unary call without tensors, such as GetCapabilities.
class SimpleCall final : public ServiceCall {
 public:
  /// The service and the method must outlive the call.
  SimpleCall(TopKService& service, Call& call, const SimpleMethod& method)
      : ServiceCall(service, call, Kind::kUnary), method_(method) {}

 private:
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void AnswerAndFinish();

  const SimpleMethod& method_;
  InFlightLimiter::Charge charge_{admitted().reservation};
  grpc::ByteBuffer message_;
};

/// Adds a method whose messages hold no tensors. `answer` is called with the
/// parsed request, the response to fill and the caller, and returns a status.
template <class Request, class Response, class Answer>
void AddSimpleMethod(CallRouter& router, TopKService& service,
                     const std::string& path, Answer answer,
                     int64_t nanoseconds = 0) {
  SimpleMethod method;
  method.answer = [answer = std::move(answer)](grpc::ByteBuffer& message,
                                               grpc::ByteBuffer& to,
                                               const Caller& caller) -> Status {
    Request request;
    if (Status s = ReadMessage(message, request); !s.ok()) return s;
    Response response;
    if (Status s = answer(request, response, caller); !s.ok()) return s;
    CopyMessage(response).Swap(&to);
    return {};
  };
  method.nanoseconds = nanoseconds;
  router.Add(path, [&service, method = std::move(method)](Call& call) {
    return std::make_unique<SimpleCall>(service, call, method);
  });
}

}  // namespace topk
