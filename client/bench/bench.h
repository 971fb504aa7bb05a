// topk bench: puts load on a server and verifies its responses.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/bench/mix.h"
#include "client/bench/path.h"
#include "client/bench/schedule.h"
#include "client/cli/exit_code.h"
#include "topk/client.h"

namespace topk::cli {

/// The flags of `topk bench`, except those of AddClientFlags().
struct BenchFlags {
  /// The request to send, or the defaults for the requests in the file `mix`.
  RequestSpec kind;
  /// The file that defines a mix of requests; "" = no mix.
  std::string mix;
  std::string path{BenchPaths().front().name};
  LoadProfile profile;
  int concurrency = 1;
  int connections = 1;
  bool keep_going = false;
  bool json = false;
  ClientOptions client;
};

/// Adds the flags to the subcommand. The defaults of some flags depend on other
/// flags. Parsing throws CLI::ValidationError if flags contradict each other.
void AddBenchFlags(CLI::App& command, BenchFlags& flags);

/// Sends random tensors repeatedly from several threads, at a fixed rate or in
/// a closed loop, and prints the rate and latencies. Returns kWrongAnswer if
/// the bytes of a response differ from those computed in this process. SIGINT
/// or SIGTERM stops the load test once the calls in flight have finished. The
/// report is then partial, and the exit status is kInterrupted.
ExitCode Bench(const BenchFlags& flags);

}  // namespace topk::cli
