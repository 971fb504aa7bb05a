// service_bench: a no-op gRPC server, which service.py compares with topkd.
//
// Serves responses of the same size as topkd's without computing. Takes the
// flags of topkd that harness.Server sets.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

void FillAnswer(const v1::TopKRequest& request, v1::TopKResponse& answer) {
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
    FillAnswer(*request, *answer);
    return grpc::Status::OK;
  }

  grpc::Status StreamTopK(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>*
          stream) override {
    v1::TopKRequestChunk chunk;
    v1::TopKResponseChunk answer;
    while (stream->Read(&chunk)) {
      if (chunk.has_header()) {
        FillAnswer(chunk.header(), *answer.mutable_header());
      }
    }
    stream->Write(answer);
    return grpc::Status::OK;
  }
};

int Main(int argc, char** argv) {
  std::string listen;
  std::string ready_file;
  std::string log_level;
  CLI::App app("A no-op server, to compare topkd with", "service_bench");
  app.add_option("--listen", listen, "the address")->required();
  app.add_option("--ready-file", ready_file, "where to write the address")
      ->required();
  app.add_option("--log-level", log_level, "ignored: nothing is logged");
  CLI11_PARSE(app, argc, argv);
  // Block SIGTERM in gRPC's threads too, so that only sigwait() receives it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  NullService service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    std::cerr << "service_bench: cannot listen on " << listen << "\n";
    return 1;
  }
  const std::string address =
      listen.substr(0, listen.rfind(':') + 1) + std::to_string(port);
  std::ofstream(ready_file + ".new")
      << nlohmann::json{{"listen", {address}}}.dump();
  std::rename((ready_file + ".new").c_str(), ready_file.c_str());
  int received = 0;
  sigwait(&signals, &received);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace topk::bench

int main(int argc, char** argv) { return topk::bench::Main(argc, argv); }
