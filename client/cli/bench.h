// topk bench: load on a server, with every answer checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/request.h"
#include "client/topk_client.h"

namespace topk::cli {

/// What `topk bench` is told.
struct BenchFlags {
  std::vector<int64_t> shape = {1, 1000};
  std::string dtype = "f32";
  OperatorFlags operation;
  int concurrency = 1;
  int64_t requests = 0;
  double seconds = 5;
  uint64_t seed = 1;
  bool json = false;
  ClientOptions client;
};

/// Sends one random tensor again and again from several threads, each as soon
/// as its last answer has come, until the requests or the seconds are used up.
/// Prints rate and latency percentiles. kWrongAnswer if an answer's bytes
/// differ from those computed in this process.
ExitCode Bench(const BenchFlags& flags);

}  // namespace topk::cli
