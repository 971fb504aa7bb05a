#include "tests/bench/service/null_server.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

// Fills an answer of the size that topkd's would have.
void AnswerNothing(const v1::TopKRequest& request, v1::TopKResponse& answer) {
  const int64_t count = request.onnx().k().value();
  v1::Tensor& values = *answer.mutable_values();
  values.set_data_type(request.tensor().data_type());
  values.add_shape(count);
  values.mutable_data()->resize(4 * static_cast<size_t>(count));
  v1::Tensor& indices = *answer.mutable_indices();
  indices.set_data_type(v1::DATA_TYPE_I64);
  indices.add_shape(count);
  indices.mutable_data()->resize(8 * static_cast<size_t>(count));
  v1::ExecutionInfo& execution = *answer.mutable_execution();
  execution.set_backend("cpu");
  execution.set_kernel("rows");
  execution.set_instruction_set("avx512");
  execution.set_compute_nanoseconds(1000);
}

class NullService final : public v1::TopKService::Service {
 public:
  grpc::Status ComputeTopK(grpc::ServerContext*, const v1::TopKRequest* request,
                           v1::TopKResponse* answer) override {
    AnswerNothing(*request, *answer);
    return grpc::Status::OK;
  }

  grpc::Status StreamTopK(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>*
          stream) override {
    v1::TopKRequestChunk chunk;
    v1::TopKResponseChunk answer;
    while (stream->Read(&chunk)) {
      if (!chunk.has_header()) continue;
      AnswerNothing(chunk.header(), *answer.mutable_header());
    }
    stream->Write(answer);
    return grpc::Status::OK;
  }
};

}  // namespace

void ServeNull(const std::vector<std::string>& listen,
               const std::string& ready_file) {
  NullService service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  int port = 0;
  for (const std::string& address : listen) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(),
                             address == listen.front() ? &port : nullptr);
  }
  const auto server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("cannot listen");
  const std::string& first = listen.front();
  std::ofstream(ready_file + ".new")
      << first.substr(0, first.rfind(':') + 1) << port << "\n";
  std::rename((ready_file + ".new").c_str(), ready_file.c_str());
  server->Wait();
}

}  // namespace topk::bench
