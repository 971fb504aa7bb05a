// service_bench: a server and a client with plain gRPC, for service.py.
//
// --mode null serves responses of the same size as topkd's without computing.
// --mode call calls such a server through generated stubs. Prints the same JSON
// keys as `topk bench --json`, as far as service.py reads them.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

constexpr int64_t kK = 10;
constexpr int64_t kChunkBytes = 1 << 20;

struct Flags {
  std::string mode;
  std::string listen = "127.0.0.1:0";
  std::string ready_file;
  std::string target;
  bool stream = false;
  int64_t bytes = 1024;
  int callers = 1;
  double seconds = 1;
};

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

// Serves until a signal ends the process. Writes the address to the ready file
// once the server accepts connections.
void Serve(const Flags& flags) {
  NullService service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  int port = 0;
  builder.AddListeningPort(flags.listen, grpc::InsecureServerCredentials(),
                           &port);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("cannot listen");
  const std::string host = flags.listen.substr(0, flags.listen.rfind(':') + 1);
  std::ofstream(flags.ready_file + ".new") << host << port << "\n";
  std::rename((flags.ready_file + ".new").c_str(), flags.ready_file.c_str());
  server->Wait();
}

// A caller with its own connection. Fills the messages before the measurement.
class Caller {
 public:
  explicit Caller(const Flags& flags) : stream_(flags.stream) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::TopKService::NewStub(grpc::CreateCustomChannel(
        flags.target, grpc::InsecureChannelCredentials(), arguments));
    request_.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
    request_.mutable_spec()->set_version(11);
    request_.mutable_onnx()->mutable_k()->set_value(kK);
    request_.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
    request_.mutable_tensor()->add_shape(flags.bytes / 4);
    if (!stream_) {
      request_.mutable_tensor()->mutable_data()->resize(
          static_cast<size_t>(flags.bytes));
      return;
    }
    *chunks_.emplace_back().mutable_header() = request_;
    for (int64_t sent = 0; sent < flags.bytes; sent += kChunkBytes) {
      chunks_.emplace_back().mutable_data()->resize(
          static_cast<size_t>(std::min(kChunkBytes, flags.bytes - sent)));
    }
  }

  // Makes calls for `seconds`, at least one. Returns their times in
  // microseconds.
  std::vector<double> Run(double seconds) {
    using Clock = std::chrono::steady_clock;
    using Microseconds = std::chrono::duration<double, std::micro>;
    std::vector<double> times;
    const auto begin = Clock::now();
    Clock::time_point end;
    do {
      const auto start = Clock::now();
      Call();
      end = Clock::now();
      times.push_back(Microseconds(end - start).count());
    } while (std::chrono::duration<double>(end - begin).count() < seconds);
    return times;
  }

 private:
  void Call() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(5));
    const grpc::Status status = stream_ ? Stream(context) : Unary(context);
    if (!status.ok()) throw std::runtime_error(status.error_message());
  }

  grpc::Status Unary(grpc::ClientContext& context) {
    v1::TopKResponse answer;
    return stub_->ComputeTopK(&context, request_, &answer);
  }

  grpc::Status Stream(grpc::ClientContext& context) {
    const auto call = stub_->StreamTopK(&context);
    for (const v1::TopKRequestChunk& chunk : chunks_) {
      if (!call->Write(chunk)) break;
    }
    call->WritesDone();
    v1::TopKResponseChunk answer;
    while (call->Read(&answer)) {
    }
    return call->Finish();
  }

  const bool stream_;
  std::unique_ptr<v1::TopKService::Stub> stub_;
  v1::TopKRequest request_;
  std::vector<v1::TopKRequestChunk> chunks_;
};

void Call(const Flags& flags) {
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < flags.callers; ++i) {
    callers.push_back(std::make_unique<Caller>(flags));
    callers.back()->Run(0);  // connects
  }
  std::vector<std::future<std::vector<double>>> running;
  for (const auto& caller : callers) {
    running.push_back(std::async(std::launch::async,
                                 [&] { return caller->Run(flags.seconds); }));
  }
  double rate = 0;
  std::vector<double> all;
  for (auto& one : running) {
    const std::vector<double> times = one.get();
    double sum = 0;
    for (const double time : times) sum += time;
    rate += static_cast<double>(times.size()) / sum * 1e6;
    all.insert(all.end(), times.begin(), times.end());
  }
  std::sort(all.begin(), all.end());
  std::cout << nlohmann::json{{"requests_per_second", rate},
                              {"p50_us", all[(all.size() - 1) / 2]}}
                   .dump()
            << std::endl;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Plain gRPC, to compare topkd with", "service_bench");
  app.add_option("--mode", flags.mode)
      ->check(CLI::IsMember({"null", "call"}))
      ->required();
  app.add_option("--listen", flags.listen, "null: the address");
  app.add_option("--ready-file", flags.ready_file,
                 "null: where to write the address");
  app.add_option("--target", flags.target, "call: the server's address");
  app.add_flag("--stream", flags.stream, "call: StreamTopK, not ComputeTopK");
  app.add_option("--bytes", flags.bytes, "call: the size of the tensor");
  app.add_option("--concurrency", flags.callers, "call: number of callers");
  app.add_option("--duration", flags.seconds, "call: seconds");
  CLI11_PARSE(app, argc, argv);
  if (flags.mode == "null") {
    Serve(flags);
  } else {
    Call(flags);
  }
  return 0;
}

}  // namespace
}  // namespace topk::bench

int main(int argc, char** argv) {
  try {
    return topk::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "service_bench: " << error.what() << "\n";
    return 2;
  }
}
