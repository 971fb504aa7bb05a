// Calls of one message.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "server/calls/method.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {

/// One request in, one response out: ComputeTopK and ModelInfer.
class UnaryCall final : public ServiceCall {
 public:
  /// The service, the loop and the method outlive it.
  UnaryCall(TopKService& service, EventLoop& loop, const ComputeMethod& method)
      : ServiceCall(service, loop, method),
        method_(method),
        request_(service, admitted(), method.make_codec()) {}

 private:
  std::shared_ptr<Call> Next() const final {
    return std::make_shared<UnaryCall>(service_, loop_, method_);
  }
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void PrepareOnWorker(WorkQueue::Job& job);
  void Compute();
  void End(const Status& status);

  const ComputeMethod& method_;
  Request request_;
};

/// One message that holds no tensor: GetCapabilities and the like.
class SimpleCall final : public ServiceCall {
 public:
  /// The service, the loop and the method outlive it.
  SimpleCall(TopKService& service, EventLoop& loop, const SimpleMethod& method)
      : ServiceCall(service, loop, method), method_(method) {}

 private:
  std::shared_ptr<Call> Next() const final {
    return std::make_shared<SimpleCall>(service_, loop_, method_);
  }
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void AnswerAndFinish();

  const SimpleMethod& method_;
  InFlightLimiter::Charge charge_;
  grpc::ByteBuffer message_;
};

}  // namespace topk
