// service_bench: compares topkd over the wire with the alternatives of its
// users.
//
// topkd is called by its own client: zero-copy, with validated responses. The
// null server (null_server.h) and the server in Python are called with the
// plain generated code, as users write it. A ratio thus compares topkd and its
// client with plain gRPC and no computation. Both sides of a row take turns.
// service.sh starts the servers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/service/null_server.h"
#include "tests/bench/service/paths.h"

namespace topk::bench {
namespace {

struct Path {
  const char* name;
  void (*measure)(const Run& run);
  std::vector<const char*> servers;
};

const std::vector<Path>& Paths() {
  static const std::vector<Path> paths = {
      {"unary", MeasureUnary, {"topkd", "null"}},
      {"oip", MeasureOip, {"topkd"}},
      {"stream", MeasureStream, {"topkd", "null"}},
      {"peers", MeasurePeers, {"topkd", "flight"}},
      {"many", MeasureMany, {"topkd", "null"}},
      {"unix", MeasureUnix, {"topkd", "topkd-unix", "null-unix"}},
      {"shm", MeasureShared, {"topkd", "null"}},
      {"python", MeasurePython, {"topkd", "python"}},
      {"idle", MeasureIdle, {"topkd", "null"}},
      {"memory", MeasureMemory, {"long", "mixed"}}};
  return paths;
}

// The command line.
struct Flags {
  std::string mode = "measure";
  std::vector<std::string> listen = {"127.0.0.1:0"};
  std::string ready_file;
  std::vector<std::string> only;
  Run run;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--mode", flags.mode, "measure; null: be the null server")
      ->check(CLI::IsMember({"measure", "null"}))
      ->capture_default_str();
  app.add_option("--listen", flags.listen, "null: where, more than once");
  app.add_option("--ready-file", flags.ready_file,
                 "null: where to write the first address");
  for (const char* name : {"topkd", "topkd-unix", "null", "null-unix", "python",
                           "flight", "long", "mixed"}) {
    app.add_option(std::string("--") + name, flags.run.servers[name],
                   "measure: a server's address");
  }
  for (const char* name : {"long", "mixed"}) {
    app.add_option(std::string("--") + name + "-pid", flags.run.processes[name],
                   "measure: a server's process");
  }
  app.add_option("--flight-client", flags.run.flight_client,
                 "measure: a command that sends to --flight");
  app.add_option("--shared-memory", flags.run.shared_memory,
                 "measure: the object to make for shm")
      ->capture_default_str();
  app.add_option("--seconds", flags.run.seconds,
                 "measure: for each row and server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  std::vector<std::string> names;
  for (const Path& path : Paths()) names.emplace_back(path.name);
  app.add_option("--only", flags.only, "measure: these paths, with commas")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--max-bytes", flags.run.max_bytes,
                 "measure: the largest tensor, in bytes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--quick", flags.run.quick,
               "measure: little of all, to see that it works");
}

void Measure(const Flags& flags) {
  Run run = flags.run;
  if (run.quick) run.seconds = std::min(run.seconds, 0.06);
  const std::vector<std::string>& only = flags.only;
  for (const Path& path : Paths()) {
    if (!only.empty() &&
        std::find(only.begin(), only.end(), path.name) == only.end()) {
      continue;
    }
    for (const char* server : path.servers) {
      if (run.servers.at(server).empty()) {
        throw std::runtime_error(std::string(path.name) + " needs --" + server);
      }
    }
    std::cerr << "== " << path.name << std::endl;
    path.measure(run);
  }
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Compares topkd over the wire with other servers",
               "service_bench");
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (flags.mode == "null") {
    ServeNull(flags.listen, flags.ready_file);
  } else {
    Measure(flags);
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
