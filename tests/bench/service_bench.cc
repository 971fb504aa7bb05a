// service_bench: a no-op gRPC server, which service.py compares with topkd.
//
// Serves responses of the same size as topkd's without computing. Takes the
// flags of topkd that harness.Server sets.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/clients/cpp/fake_server.h"

namespace topk::bench {
namespace {

void AddExecution(v1::TopKResponse& answer) {
  v1::ExecutionInfo& execution = *answer.mutable_execution();
  execution.set_backend("cpu");
  execution.set_kernel("rows");
  execution.set_instruction_set("avx512");
  execution.set_compute_nanoseconds(1000);
}

testing::Fake NoOp() {
  return {.compute =
              [](auto&, auto&, v1::TopKResponse& answer) {
                AddExecution(answer);
                return grpc::Status::OK;
              },
          .stream =
              [](auto& stream) {
                v1::TopKResponseChunk answer;
                for (v1::TopKRequestChunk chunk; stream.Read(&chunk);) {
                  if (chunk.has_header()) {
                    *answer.mutable_header() =
                        testing::AnswerTo(chunk.header());
                  }
                }
                AddExecution(*answer.mutable_header());
                stream.Write(answer);
                return grpc::Status::OK;
              }};
}

int Main(int argc, char** argv) {
  std::string listen;
  std::string ready_file;
  std::string log_level;
  CLI::App app("A no-op server, to compare topkd with", "service_bench");
  app.add_option("--listen", listen, "the address, on any port")->required();
  app.add_option("--ready-file", ready_file, "where to write the address")
      ->required();
  app.add_option("--log-level", log_level, "ignored: nothing is logged");
  CLI11_PARSE(app, argc, argv);
  // Block SIGTERM in gRPC's threads too, so that only sigwait() receives it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const testing::FakeServer server(NoOp(), listen.substr(0, listen.rfind(':')),
                                   /*has_health=*/false);
  if (server.target().empty()) {
    std::cerr << "service_bench: cannot listen on " << listen << "\n";
    return 1;
  }
  std::ofstream(ready_file + ".new")
      << nlohmann::json{{"listen", {server.target()}}}.dump();
  std::rename((ready_file + ".new").c_str(), ready_file.c_str());
  int received = 0;
  sigwait(&signals, &received);
  return 0;
}

}  // namespace
}  // namespace topk::bench

int main(int argc, char** argv) { return topk::bench::Main(argc, argv); }
