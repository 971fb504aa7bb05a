// topk bench: puts load on a server and verifies its responses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/bench/load.h"
#include "client/bench/request_template.h"
#include "client/cli/errors.h"
#include "topk/client.h"

namespace topk::cli {

/// The flags of `topk bench`.
struct BenchFlags {
  RequestSpec request;
  /// A file with the tensor to send; "" = random tensors.
  std::string input;
  std::string path{kBenchPaths[0].name};
  LoadProfile profile;
  int concurrency = 1;
  int connections = 1;
  bool keep_going = false;
  /// The limits of the 99th percentile of the latency, in seconds, and of the
  /// number of failed requests.
  std::optional<double> max_p99;
  std::optional<int64_t> max_errors;
  bool progress = false;
  /// The file for a row per second; "" = none.
  std::string csv;
  bool json = false;
  /// Makes one attempt per call, so that the report counts all failures.
  ClientOptions client = {.retry = Retry{.attempts = 1}};
};

/// Sends tensors repeatedly, at a fixed rate or in a closed loop, and prints
/// the rate and latencies. Returns kWrongAnswer if the bytes of a response
/// differ from those computed in this process, and kThresholdCrossed after the
/// report if a limit is exceeded. SIGINT or SIGTERM stops the load test once
/// the calls in flight have finished. The report is then partial, and the exit
/// status is kInterrupted.
ExitCode Bench(const BenchFlags& flags);

}  // namespace topk::cli
