// topk: TopK from the command line.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <limits>

#include "client/bench/bench.h"
#include "client/cli/completion.h"
#include "client/cli/run.h"
#include "client/cli/security_flags.h"
#include "client/cli/server_commands.h"
#include "core/engine.h"

namespace {

using namespace topk::cli;  // NOLINT: this file is the command

constexpr char kFooter[] =
    "Data goes to stdout, all else to stderr. Exit status: 0 done, 1 failed, 2 "
    "wrong command line, 3 input file, 4 refused by the server, 5 no server or "
    "no answer in time, 6 wrong answer.";

void AddClientFlags(CLI::App& command, topk::ClientOptions& client,
                    double& deadline_seconds) {
  command
      .add_option("--target", client.target,
                  "The server: host:port, unix:path, dns:///name:port, or a "
                  "list of IPv4 host:port")
      ->envname("TOPK_TARGET")
      ->capture_default_str();
  command
      .add_option("--deadline", deadline_seconds,
                  "Seconds that a call may take")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  command
      .add_option("--max-attempts", client.max_attempts,
                  "How often to send a call that finds no server")
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  AddSecurityFlags(command, client);
}

CLI::App* AddRun(CLI::App& app, RunFlags& flags, double& deadline) {
  CLI::App* run = app.add_subcommand(
      "run", "Selects from a .npy file and prints a line per slice");
  run->add_option("file", flags.file, "A .npy file, or - for stdin")
      ->required();
  AddOperatorFlags(*run, flags.operation);
  run->add_option_function<std::string>(
         "--dtype", [&flags](const std::string&) { flags.as_bf16 = true; },
         "Read 2-byte elements (V2, u2) as bf16, for which .npy has no type")
      ->check(CLI::IsMember({"bf16"}));
  auto* local =
      run->add_flag("--local", flags.local, "Compute here, without a server");
  auto* stream = run->add_option("--stream", flags.stream,
                                 "Whether to send the tensor in pieces; auto "
                                 "does above 512 KiB")
                     ->check(CLI::IsMember({"auto", "on", "off"}))
                     ->capture_default_str();
  run->add_flag("--shared-memory", flags.shared_memory,
                "Leave the tensor and take the answer in shared memory, of a "
                "server on this machine that allows it for names of /topk*")
      ->excludes(local)
      ->excludes(stream);
  auto* out = run->add_option("--out", flags.out_directory,
                              "Write values.npy and indices.npy there (bf16 as "
                              "V2) instead of a table");
  auto* json =
      run->add_flag("--json", flags.json, "Print JSON instead of a table")
          ->excludes(out);
  run->add_option("--max-slices", flags.max_slices,
                  "How many slices the table shows")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  run->add_option("--labels", flags.labels,
                  "A .npy file with a number for each position along the axis, "
                  "to show in the table for what was found")
      ->excludes(out)
      ->excludes(json);
  run->add_option("--slice-labels", flags.slice_labels,
                  "A .npy file with a number for each slice, to show beside "
                  "its name")
      ->excludes(out)
      ->excludes(json);
  AddClientFlags(*run, flags.client, deadline);
  return run;
}

CLI::App* AddBench(CLI::App& app, BenchFlags& flags, double& deadline) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Loads a server with random tensors and verifies the answers");
  AddBenchFlags(*bench, flags);
  AddClientFlags(*bench, flags.client, deadline);
  return bench;
}

// A full disk or a closed pipe is a failure, not an answer.
int AtEnd(int exit_code) {
  if (std::cout.flush() || exit_code != kOk) return exit_code;
  std::cerr << "topk: cannot write to stdout\n";
  return kFailed;
}

int Main(int argc, char** argv) {
  if (const topk::Status s = topk::Engine::CheckEnvironment(); !s.ok()) {
    std::cerr << "topk: " << s.field << ": " << s.message << "\n";
    return kUsage;
  }
  CLI::App app("topk asks a TopK service, or computes itself", "topk");
  app.footer(kFooter);
  app.set_version_flag("--version", "topk " TOPK_VERSION);
  app.require_subcommand(1);
  double deadline = 60;

  RunFlags run;
  const CLI::App* run_command = AddRun(app, run, deadline);
  topk::ClientOptions client;
  std::string service;
  CLI::App* health =
      app.add_subcommand("health", "Asks a server whether it serves");
  health->add_option("--service", service,
                     "The service to ask about; the whole server if not given");
  AddClientFlags(*health, client, deadline);
  bool json = false;
  CLI::App* info = app.add_subcommand(
      "info", "Prints a server's dialects, types, backends and limits");
  info->add_flag("--json", json, "Print JSON");
  AddClientFlags(*info, client, deadline);
  BenchFlags bench;
  const CLI::App* bench_command = AddBench(app, bench, deadline);
  CLI::App* completion =
      app.add_subcommand("completion", "Prints a completion script");
  std::string shell;
  completion->add_option("shell", shell, "The shell: bash")
      ->required()
      ->check(CLI::IsMember({"bash"}));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return AtEnd(app.exit(error) == 0 ? kOk : kUsage);
  }
  const auto milliseconds =
      std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
  for (topk::ClientOptions* options : {&run.client, &bench.client, &client}) {
    options->deadline = milliseconds;
    options->user_agent = "topk/" TOPK_VERSION;
  }
  const topk::ClientOptions* used = run_command->parsed()     ? &run.client
                                    : bench_command->parsed() ? &bench.client
                                                              : &client;
  if (!run.local && !completion->parsed()) {
    if (const topk::Status s = topk::Client::Check(*used); !s.ok()) {
      std::cerr << "topk: " << s.message << "\n";
      return kUsage;
    }
  }
  if (run_command->parsed()) return AtEnd(Run(run));
  if (bench_command->parsed()) return AtEnd(Bench(bench));
  if (health->parsed()) return AtEnd(Health(client, service));
  if (info->parsed()) return AtEnd(Info(client, json));
  std::cout << BashCompletion(app);
  return AtEnd(kOk);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {  // no memory, no threads
    std::cerr << "topk: " << error.what() << "\n";
    return kFailed;
  }
}
