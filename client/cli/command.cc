#include "client/cli/command.h"

#include <grpcpp/support/channel_arguments.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "client/bench/bench.h"
#include "client/cli/errors.h"
#include "client/cli/merge.h"
#include "client/cli/number_flag.h"
#include "client/cli/run.h"
#include "client/cli/server_commands.h"
#include "client/credentials.h"
#include "core/base/text.h"
#include "core/common/usage_text.h"
#include "core/engine.h"

namespace topk::cli {

namespace {

// Rejects an empty value, e.g. from an unset shell variable, because it would
// turn off TLS.
CLI::Validator NotEmpty() {
  const auto check = [](const std::string& value) -> std::string {
    return value.empty() ? "the value is empty" : "";
  };
  return CLI::Validator(check, "");
}

void AddClientFlags(CLI::App& command, ClientOptions& client,
                    double& timeout_seconds) {
  command
      .add_option("--target", client.target,
                  "Server: host:port, unix:path, dns:///name:port, or a "
                  "comma-separated list of IP addresses with ports")
      ->envname("TOPK_TARGET")
      ->capture_default_str();
  command
      .add_option("--timeout,--deadline", timeout_seconds,
                  "Max duration of a call, in seconds")
      ->check(Number(0.001, 86400))
      ->capture_default_str();
  command
      .add_option("--max-attempts", client.retry->attempts,
                  "Max attempts per call. A call is retried after "
                  "UNAVAILABLE, and after RESOURCE_EXHAUSTED if the server's "
                  "retry delay ends before the deadline; 1 disables retries")
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  const auto add = [&](const char* flag, std::string& value,
                       const char* variable, const char* text) {
    return command.add_option(flag, value, text)
        ->check(NotEmpty())
        ->envname(variable);
  };
  command
      .add_flag("--tls", client.tls,
                "Use TLS. Without --tls-ca, trust the authorities that this "
                "machine trusts. Implied by the other --tls flags")
      ->envname("TOPK_TLS");
  add("--tls-ca", client.tls_ca, "TOPK_TLS_CA",
      "PEM file with the authorities that may sign the server's certificate")
      ->type_name("FILE");
  add("--tls-cert", client.tls_cert, "TOPK_TLS_CERT",
      "PEM file with this client's certificate, for servers that require one")
      ->type_name("FILE");
  add("--tls-key", client.tls_key, "TOPK_TLS_KEY",
      "PEM file with the private key of --tls-cert, without a passphrase")
      ->type_name("FILE");
  add("--tls-server-name", client.tls_server_name, "TOPK_TLS_SERVER_NAME",
      "Name that the server's certificate must have; default: the host in "
      "--target. Required if --target is a list of addresses");
  add("--token-file", client.token_file, "TOPK_TOKEN_FILE",
      "File with a token to send with each call, as "
      "\"authorization: Bearer TOKEN\"")
      ->type_name("FILE");
  command
      .add_flag("--token-over-plaintext", client.token_over_plaintext,
                "Send the token to other machines even without TLS")
      ->envname("TOPK_TOKEN_OVER_PLAINTEXT");
}

// Flushes stdout and returns `exit_code`. Returns kFailed instead of kOk if
// stdout cannot be written, e.g. because the disk is full.
int AtEnd(int exit_code) {
  if (std::cout.flush() || exit_code != kOk) return exit_code;
  std::cerr << "topk: cannot write to stdout\n";
  return kFailed;
}

// Returns the option called `name`, or null. Searches the command in use first.
// Also searches the other commands, because CLI11 reads their environment
// variables too.
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

// Returns the source of a flag's value: the flag or an environment variable.
std::string SourceOf(const CLI::App& app, const std::string& flag, int argc,
                     char** argv) {
  const CLI::Option* option = FindOption(app, flag);
  if (option == nullptr || IsArgument(argc, argv, flag)) return flag;
  const std::string variable = option->get_envname();
  const char* value =
      variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value != nullptr && *value != '\0' ? variable : flag;
}

// Returns the flag for a client option, e.g. "--tls-ca" for "tls_ca".
std::string FlagOf(std::string_view option) {
  std::string flag = StrCat("--", option);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

int Main(int argc, char** argv) {
  if (const Status s = CheckEnvironment(); !s.ok()) {
    std::cerr << "topk: " << s.field << ": " << s.message << "\n";
    return kUsage;
  }
  CLI::App app("Calls a TopK server, or computes locally", "topk");
  app.footer(kExitStatusText);
  app.set_version_flag("--version", "topk " TOPK_VERSION);
  app.require_subcommand(1);
  app.failure_message(
      [&app, argc, argv](const CLI::App*, const CLI::Error& error) {
        const auto find = [&](const std::string& name) {
          return SourceOf(app, name, argc, argv);
        };
        return StrCat("topk: ", UsageText(error.what(), find),
                      "\nRun with --help for more information.\n");
      });
  double timeout = 60;

  RunFlags run;
  CLI::App* run_command = app.add_subcommand(
      "run",
      "Selects from a .npy, .npz or text file and prints a line per "
      "slice");
  AddRunFlags(*run_command, run);
  AddClientFlags(*run_command, run.client, timeout);
  MergeFlags merge;
  CLI::App* merge_command = app.add_subcommand(
      "merge", "Merges the results of the shards of an axis");
  AddMergeFlags(*merge_command, merge);
  // Do not share options between commands: CLI11 also reads the environment
  // variables of unused commands, which could override flags.
  const auto no_proxy = std::make_shared<grpc::ChannelArguments>();
  no_proxy->SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  ClientOptions health_client = {.channel_arguments = no_proxy};
  ClientOptions info_client;
  std::string service;
  CLI::App* health =
      app.add_subcommand("health",
                         "Prints the health status of a server. Does not use "
                         "an HTTP proxy");
  health->add_option("--service", service,
                     "Service to check; default: the whole server");
  AddClientFlags(*health, health_client, timeout);
  bool json = false;
  CLI::App* info = app.add_subcommand(
      "info", "Prints a server's dialects, types, backends and limits");
  info->add_flag("--json", json, "Print JSON");
  AddClientFlags(*info, info_client, timeout);
  BenchFlags bench;
  CLI::App* bench_command = app.add_subcommand(
      "bench", "Loads a server with random tensors and verifies the results");
  AddBenchFlags(*bench_command, bench);
  AddClientFlags(*bench_command, bench.client, timeout);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 would report only that another argument is missing.
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    if (error.get_exit_code() != 0 && !unknown.empty()) {
      std::cerr << "topk: unexpected argument " << Quote(unknown.front())
                << "\nRun with --help for more information.\n";
      return kUsage;
    }
    return AtEnd(app.exit(error) == 0 ? kOk : kUsage);
  }
  const auto milliseconds =
      std::chrono::milliseconds(static_cast<int64_t>(timeout * 1000));
  for (ClientOptions* options :
       {&run.client, &bench.client, &health_client, &info_client}) {
    options->timeout = milliseconds;
    options->user_agent = "topk/" TOPK_VERSION;
  }
  if (merge_command->parsed()) return AtEnd(MergeFolders(merge));
  const ClientOptions* used = run_command->parsed()     ? &run.client
                              : bench_command->parsed() ? &bench.client
                              : health->parsed()        ? &health_client
                                                        : &info_client;
  if (!run.local) {
    if (const Status s = CheckOptions(*used, FlagOf); !s.ok()) {
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
  } catch (const std::exception& error) {  // e.g. starting a thread failed
    std::cerr << "topk: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace topk::cli
