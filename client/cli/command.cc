#include "client/cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "client/bench/bench.h"
#include "client/cli/command_tree.h"
#include "client/cli/completion.h"
#include "client/cli/errors.h"
#include "client/cli/help.h"
#include "client/cli/man_page.h"
#include "client/cli/merge.h"
#include "client/cli/number_flag.h"
#include "client/cli/run.h"
#include "client/cli/security_flags.h"
#include "client/cli/server_commands.h"
#include "core/base/text.h"
#include "core/base/usage_text.h"
#include "core/engine.h"

namespace topk::cli {

namespace {

void AddClientFlags(CLI::App& command, ClientOptions& client,
                    double& deadline_seconds) {
  command
      .add_option("--target", client.target,
                  "Server: host:port, unix:path, dns:///name:port, or a "
                  "comma-separated list of IP addresses with ports")
      ->envname("TOPK_TARGET")
      ->capture_default_str();
  command
      .add_option("--deadline", deadline_seconds,
                  "Max duration of a call, in seconds")
      ->check(Number(0.001, 86400))
      ->capture_default_str();
  command
      .add_option("--max-attempts", client.max_attempts,
                  "Max attempts of a call that ends with UNAVAILABLE, or with "
                  "RESOURCE_EXHAUSTED and a retry delay that ends before the "
                  "deadline; 1 disables retries")
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  AddSecurityFlags(command, client);
}

CLI::App* AddRun(CLI::App& app, RunFlags& flags, double& deadline) {
  CLI::App* run = app.add_subcommand(
      "run", "Selects from a .npy or .npz file and prints a line per slice");
  AddRunFlags(*run, flags);
  AddClientFlags(*run, flags.client, deadline);
  return run;
}

CLI::App* AddBench(CLI::App& app, BenchFlags& flags, double& deadline) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Loads a server with random tensors and verifies the results");
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

// Returns the option of a name, preferably one of the command that is used:
// CLI11 reads the variables of all of them. Null if there is no such option.
const CLI::Option* FindOption(const CLI::App& app, const std::string& name) {
  std::vector<const CLI::App*> commands = app.get_subcommands({});
  std::stable_partition(
      commands.begin(), commands.end(),
      [](const CLI::App* command) { return command->parsed(); });
  for (const CLI::App* command : commands) {
    if (const auto* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

// Returns a flag and whether a variable set it.
UsageFlag FindFlag(const CLI::App& app, const std::string& name, int argc,
                   char** argv) {
  const CLI::Option* option = FindOption(app, name);
  UsageFlag found{.type = "", .source = name};
  if (option == nullptr) return found;
  found.type = option->get_type_name();
  const std::string variable = option->get_envname();
  const char* value =
      variable.empty() ? nullptr : std::getenv(variable.c_str());
  if (value != nullptr && *value != '\0' && !IsArgument(argc, argv, name)) {
    found.source = variable;
  }
  return found;
}

// Returns the first unknown flag of the command line, or "".
std::string UnknownFlag(const CLI::App& app) {
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (word.starts_with('-')) return word;
  }
  return "";
}

int Main(int argc, char** argv) {
  if (const Status s = CheckEnvironment(); !s.ok()) {
    std::cerr << "topk: " << s.field << ": " << s.message << "\n";
    return kUsage;
  }
  CLI::App app("Calls a TopK server, or computes locally", "topk");
  app.formatter(HelpFormatter());
  app.footer(kExitStatusText);
  app.set_version_flag("--version", "topk " TOPK_VERSION);
  app.require_subcommand(1);
  app.failure_message(
      [&app, argc, argv](const CLI::App*, const CLI::Error& error) {
        const auto find = [&](const std::string& name) {
          return FindFlag(app, name, argc, argv);
        };
        return StrCat("topk: ", UsageText(error.what(), find),
                      "\nRun with --help for more information.\n");
      });
  double deadline = 60;

  RunFlags run;
  const CLI::App* run_command = AddRun(app, run, deadline);
  MergeFlags merge;
  CLI::App* merge_command = app.add_subcommand(
      "merge", "Merges the results of the shards of an axis");
  AddMergeFlags(*merge_command, merge);
  // Each command has its own: CLI11 reads the variables of them all, and those
  // of another one would take the place of this one's flags.
  ClientOptions health_client;
  ClientOptions info_client;
  std::string service;
  CLI::App* health =
      app.add_subcommand("health", "Prints the health status of a server");
  health->add_option("--service", service,
                     "Service to check; default: the whole server");
  AddClientFlags(*health, health_client, deadline);
  bool json = false;
  CLI::App* info = app.add_subcommand(
      "info", "Prints a server's dialects, types, backends and limits");
  info->add_flag("--json", json, "Print JSON");
  AddClientFlags(*info, info_client, deadline);
  BenchFlags bench;
  const CLI::App* bench_command = AddBench(app, bench, deadline);
  CLI::App* completion = app.add_subcommand(
      "completion", "Prints a shell completion script for this command");
  std::vector<std::string> shells;
  for (const CompletingShell& row : CompletingShells()) {
    shells.emplace_back(row.name);
  }
  std::string shell;
  completion->add_option("shell", shell, "The shell")
      ->required()
      ->check(CLI::IsMember(shells));
  const CLI::App* man =
      app.add_subcommand("man", "Prints the manual page: topk man | man -l -");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 reports a missing flag before an unknown one, which may be the
    // missing flag misspelt.
    const std::string unknown = UnknownFlag(app);
    if (error.get_exit_code() != 0 && !unknown.empty()) {
      const std::vector<CLI::App*> used = app.get_subcommands();
      std::cerr << "topk: unknown flag " << Quote(unknown) << "; topk "
                << (used.empty() ? "" : used.front()->get_name() + " ")
                << "--help lists the flags\n";
      return kUsage;
    }
    // CLI11 reports an unknown command as a missing one.
    const auto named = [argv](const CLI::App* command) {
      return command->get_name() == argv[1];
    };
    if (error.get_exit_code() != 0 && argc > 1 && argv[1][0] != '-' &&
        std::ranges::none_of(CommandsOf(app), named)) {
      std::cerr << "topk: no command " << Quote(argv[1])
                << "; topk --help lists them\n";
      return kUsage;
    }
    return AtEnd(app.exit(error) == 0 ? kOk : kUsage);
  }
  const auto milliseconds =
      std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
  for (ClientOptions* options :
       {&run.client, &bench.client, &health_client, &info_client}) {
    options->deadline = milliseconds;
    options->user_agent = "topk/" TOPK_VERSION;
  }
  if (man->parsed()) {
    std::cout << ManPage(app, TOPK_VERSION);
    return AtEnd(kOk);
  }
  for (const CompletingShell& row : CompletingShells()) {
    if (!completion->parsed() || row.name != shell) continue;
    std::cout << row.script(app);
    return AtEnd(kOk);
  }
  if (merge_command->parsed()) return AtEnd(MergeFolders(merge));
  const ClientOptions* used = run_command->parsed()     ? &run.client
                              : bench_command->parsed() ? &bench.client
                              : health->parsed()        ? &health_client
                                                        : &info_client;
  if (!run.local) {
    if (const Status s = Client::Check(*used); !s.ok()) {
      return ReportUsage(s);
    }
  }
  if (run_command->parsed()) return AtEnd(Run(run));
  if (bench_command->parsed()) return AtEnd(Bench(bench));
  if (health->parsed()) return AtEnd(Health(health_client, service));
  return AtEnd(Info(info_client, json));
}

}  // namespace

int RunCommand(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "topk: not enough memory\n";
    return kFailed;
  } catch (const std::exception& error) {  // no threads
    std::cerr << "topk: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace topk::cli
