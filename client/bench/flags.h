// The flags of `topk bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/bench/mix.h"
#include "client/bench/path.h"
#include "client/bench/schedule.h"
#include "topk/client.h"

namespace topk::cli {

/// The flags of `topk bench`, except those of AddClientFlags().
struct BenchFlags {
  /// The one kind of request, or what the mix's lines leave out.
  RequestSpec kind;
  /// A file; "" = no mix.
  std::string mix;
  std::string path{BenchPaths().front().name};
  LoadProfile profile;
  int concurrency = 1;
  int connections = 1;
  bool keep_going = false;
  bool json = false;
  ClientOptions client;
};

/// Adds the flags to the sub-command. Parsing sets those that were not given by
/// what was, and throws CLI::ValidationError for what contradicts itself.
void AddBenchFlags(CLI::App& command, BenchFlags& flags);

}  // namespace topk::cli
