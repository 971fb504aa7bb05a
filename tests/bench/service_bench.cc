// service_bench: topkd beside a server that does nothing, over the wire.
//
// The null server takes the same messages by the generated code and answers
// with as many bytes, computing nothing: what a call costs before anyone
// computes. Both are asked by the same client, in turn. service.sh starts them.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The command line.
struct Flags {
  std::string mode = "measure";
  std::string listen = "127.0.0.1:0";
  std::string ready_file;
  std::string topkd;
  std::string null;
  double seconds = 3;
  std::string only;
  int64_t most = int64_t{256} << 20;
};

constexpr int64_t kK = 10;
constexpr int64_t kPieceBytes = int64_t{1} << 20;

// An answer of the size that a request's would have.
v1::TopKResponse EmptyAnswer(const v1::TopKRequest& request) {
  v1::TopKResponse answer;
  const int64_t count = request.onnx().k().value();
  answer.mutable_values()->set_data(std::string(4 * count, '\0'));
  answer.mutable_indices()->set_data(std::string(8 * count, '\0'));
  return answer;
}

class NullService final : public v1::TopKService::Service {
 public:
  grpc::Status ComputeTopK(grpc::ServerContext*, const v1::TopKRequest* request,
                           v1::TopKResponse* response) override {
    *response = EmptyAnswer(*request);
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
        *answer.mutable_header() = EmptyAnswer(chunk.header());
      }
    }
    stream->Write(answer);
    return grpc::Status::OK;
  }
};

int ServeNull(const Flags& flags) {
  NullService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(flags.listen, grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("cannot listen");
  const std::string& listen = flags.listen;
  const std::string target =
      listen.rfind("unix:", 0) == 0
          ? listen
          : listen.substr(0, listen.rfind(':') + 1) + std::to_string(port);
  const std::string ready = flags.ready_file;
  std::ofstream(ready + ".new") << target << "\n";
  std::rename((ready + ".new").c_str(), ready.c_str());
  server->Wait();  // until a signal ends the process
  return 0;
}

v1::TopKRequest Request(int64_t bytes, bool with_data) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(kK);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(bytes / 4);
  if (!with_data) return request;
  std::string data(static_cast<size_t>(bytes), '\0');
  uint32_t random = 1;
  for (size_t i = 0; i + 4 <= data.size(); i += 4) {
    random = random * 1664525u + 1013904223u;
    const auto x = static_cast<float>(random >> 8);
    data.replace(i, 4, reinterpret_cast<const char*>(&x), 4);
  }
  request.mutable_tensor()->set_data(std::move(data));
  return request;
}

// One caller: a channel of its own, and what it sends again and again.
class Caller {
 public:
  Caller(const std::string& target, const std::string& path, int64_t bytes)
      : stream_(path == "stream"), request_(Request(bytes, !stream_)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::TopKService::NewStub(grpc::CreateCustomChannel(
        target, grpc::InsecureChannelCredentials(), arguments));
    if (!stream_) return;
    header_.mutable_header()->CopyFrom(request_);
    const std::string data = Request(bytes, true).tensor().data();
    for (int64_t i = 0; i < bytes; i += kPieceBytes) {
      chunks_.emplace_back().set_data(
          data.substr(static_cast<size_t>(i), kPieceBytes));
    }
  }

  void Call() {
    grpc::ClientContext context;
    const grpc::Status status = stream_ ? Stream(context) : Unary(context);
    if (!status.ok()) throw std::runtime_error(status.error_message());
  }

 private:
  grpc::Status Unary(grpc::ClientContext& context) {
    v1::TopKResponse response;
    return stub_->ComputeTopK(&context, request_, &response);
  }

  grpc::Status Stream(grpc::ClientContext& context) {
    const auto stream = stub_->StreamTopK(&context);
    bool sent = stream->Write(header_);
    for (const v1::TopKRequestChunk& chunk : chunks_) {
      sent = sent && stream->Write(chunk);
    }
    stream->WritesDone();
    v1::TopKResponseChunk answer;
    while (stream->Read(&answer)) {
    }
    return stream->Finish();
  }

  const bool stream_;
  const v1::TopKRequest request_;
  v1::TopKRequestChunk header_;
  std::vector<v1::TopKRequestChunk> chunks_;
  std::unique_ptr<v1::TopKService::Stub> stub_;
};

// One server's side of a row: its callers, and how long each call took.
struct Side {
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<double> microseconds;
  double seconds = 0;

  // All callers call for a while, each at least once.
  void Turn(double duration) {
    std::vector<std::vector<double>> times(callers.size());
    std::vector<std::thread> threads;
    const auto begin = Clock::now();
    for (size_t i = 0; i < callers.size(); ++i) {
      threads.emplace_back([&, i] {
        do {
          const auto start = Clock::now();
          callers[i]->Call();
          times[i].push_back(
              std::chrono::duration<double, std::micro>(Clock::now() - start)
                  .count());
        } while (std::chrono::duration<double>(Clock::now() - begin).count() <
                 duration);
      });
    }
    for (std::thread& thread : threads) thread.join();
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    for (const auto& some : times) {
      microseconds.insert(microseconds.end(), some.begin(), some.end());
    }
  }

  double per_second() const {
    return static_cast<double>(microseconds.size()) / seconds;
  }
  double Percentile(double part) {
    std::sort(microseconds.begin(), microseconds.end());
    const auto last = static_cast<double>(microseconds.size() - 1);
    return microseconds[static_cast<size_t>(part * last)];
  }
};

void Measure(const std::string& path, int64_t bytes, int callers,
             const Flags& flags) {
  Side topkd;
  Side null;
  for (int i = 0; i < callers; ++i) {
    topkd.callers.push_back(std::make_unique<Caller>(flags.topkd, path, bytes));
    null.callers.push_back(std::make_unique<Caller>(flags.null, path, bytes));
    topkd.callers.back()->Call();
    null.callers.back()->Call();
  }
  constexpr int kTurns = 6;
  for (int turn = 0; turn < kTurns; ++turn) {
    topkd.Turn(flags.seconds / kTurns);
    null.Turn(flags.seconds / kTurns);
  }
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  const auto round = [](double x) { return std::round(x * 1000) / 1000; };
  const nlohmann::ordered_json row = {
      {"path", path},
      {"bytes", bytes},
      {"callers", callers},
      {"topkd_gbps", round(topkd.per_second() * gigabytes)},
      {"topkd_rps", round(topkd.per_second())},
      {"topkd_p50_us", round(topkd.Percentile(0.5))},
      {"topkd_p99_us", round(topkd.Percentile(0.99))},
      {"null_gbps", round(null.per_second() * gigabytes)},
      {"null_rps", round(null.per_second())},
      {"null_p50_us", round(null.Percentile(0.5))},
      {"ratio", round(topkd.per_second() / null.per_second())}};
  std::cout << row.dump() << std::endl;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("topkd beside a server that does nothing, over the wire",
               "service_bench");
  app.add_option("--mode", flags.mode, "measure; null: be that server")
      ->check(CLI::IsMember({"measure", "null"}))
      ->capture_default_str();
  app.add_option("--listen", flags.listen, "null: where")
      ->capture_default_str();
  app.add_option("--ready-file", flags.ready_file,
                 "null: where to write its address");
  app.add_option("--topkd", flags.topkd, "measure: the address of topkd");
  app.add_option("--null", flags.null, "measure: that of the null server");
  app.add_option("--seconds", flags.seconds, "measure: for each row and server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", flags.only, "measure: one path")
      ->check(CLI::IsMember({"unary", "stream"}));
  app.add_option("--most", flags.most, "measure: the largest tensor, in bytes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (flags.mode == "null") return ServeNull(flags);
  for (const std::string path : {"unary", "stream"}) {
    if (!flags.only.empty() && flags.only != path) continue;
    for (const int64_t bytes :
         {1 << 10, 1 << 16, 1 << 20, 4 << 20, 64 << 20, 256 << 20}) {
      // One message holds so much by topkd's own limit.
      const int64_t most = path == "unary" ? (64 << 20) - 4096 : flags.most;
      for (const int callers : {1, 8}) {
        if (callers == 8 && bytes > (4 << 20)) continue;
        if (path == "unary" && bytes > (64 << 20)) continue;
        Measure(path, std::min(bytes, most), callers, flags);
      }
      if (bytes > most) break;
    }
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
