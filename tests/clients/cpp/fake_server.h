// A server with handlers defined by a test.
#pragma once

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "topk/v1/topk.grpc.pb.h"

namespace topk::testing {

/// Returns a response that a client accepts for an ONNX request over the last
/// axis of an f32 tensor. All its elements are zero.
inline v1::TopKResponse AnswerTo(const v1::TopKRequest& request) {
  v1::TopKResponse answer;
  v1::Tensor& values = *answer.mutable_values();
  v1::Tensor& indices = *answer.mutable_indices();
  *values.mutable_shape() = request.tensor().shape();
  if (values.shape().empty()) return answer;
  values.set_shape(values.shape_size() - 1, request.onnx().k().value());
  *indices.mutable_shape() = values.shape();
  size_t count = 1;
  for (const int64_t size : values.shape()) count *= static_cast<size_t>(size);
  values.set_data_type(v1::DATA_TYPE_F32);
  values.set_data(std::string(count * 4, '\0'));
  indices.set_data_type(v1::DATA_TYPE_I64);
  indices.set_data(std::string(count * 8, '\0'));
  answer.set_request_id(request.request_id());
  return answer;
}

/// Returns the headers of a call.
inline std::multimap<std::string, std::string> HeadersOf(
    const grpc::ServerContext& context) {
  std::multimap<std::string, std::string> headers;
  for (const auto& [name, value] : context.client_metadata()) {
    headers.emplace(std::string(name.data(), name.size()),
                    std::string(value.data(), value.size()));
  }
  return headers;
}

/// The handlers of the fake server. A method without a handler is
/// UNIMPLEMENTED. `compute` receives the response from AnswerTo() and may
/// change it.
struct Fake {
  std::function<grpc::Status(grpc::ServerContext&, const v1::TopKRequest&,
                             v1::TopKResponse&)>
      compute = {};
  std::function<grpc::Status(
      grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>&)>
      stream = {};
  std::function<grpc::Status(
      grpc::ServerReaderWriter<v1::TopKResult, v1::TopKRequest>&)>
      many = {};
};

/// Serves on a free loopback port until it is destroyed.
class FakeServer final : public v1::TopKService::Service {
 public:
  explicit FakeServer(Fake fake, const std::string& host = "127.0.0.1",
                      bool has_health = true)
      : fake_(std::move(fake)) {
    grpc::EnableDefaultHealthCheckService(has_health);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(host + ":0", grpc::InsecureServerCredentials(),
                             &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return;
    if (has_health) SetServing(true);
    target_ = host + ":" + std::to_string(port);
  }
  ~FakeServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  /// The address, or "" if the host cannot be bound.
  const std::string& target() const { return target_; }

  void SetServing(bool serving) {
    server_->GetHealthCheckService()->SetServingStatus("topk.v1.TopKService",
                                                       serving);
  }

 private:
  static grpc::Status Unset() { return {grpc::StatusCode::UNIMPLEMENTED, ""}; }

  grpc::Status ComputeTopK(grpc::ServerContext* context,
                           const v1::TopKRequest* request,
                           v1::TopKResponse* response) override {
    *response = AnswerTo(*request);
    return fake_.compute ? fake_.compute(*context, *request, *response)
                         : Unset();
  }
  grpc::Status StreamTopK(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>*
          stream) override {
    return fake_.stream ? fake_.stream(*stream) : Unset();
  }
  grpc::Status ComputeTopKMany(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::TopKResult, v1::TopKRequest>* stream)
      override {
    return fake_.many ? fake_.many(*stream) : Unset();
  }

  Fake fake_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

}  // namespace topk::testing
