// topk: TopK from the command line.
#include <grpcpp/support/channel_arguments.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
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

void AddClientFlags(CLI::App& command, ClientOptions& client) {
  client.user_agent = "topk/" TOPK_VERSION;
  command
      .add_option("--target", client.target,
                  "Server: host:port, unix:path, dns:///name:port, or a "
                  "comma-separated list of IP addresses with ports")
      ->envname("TOPK_TARGET")
      ->capture_default_str();
  command
      .add_option_function<double>(
          "--timeout",
          [&client](double seconds) {
            client.timeout =
                std::chrono::milliseconds(std::llround(1e3 * seconds));
          },
          "Max duration of a call, in seconds")
      ->check(Number(0.001, 86400))
      ->default_str("60");
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
  command
      .add_option_function<std::vector<std::string>>(
          "--metadata",
          [&client](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const size_t end = text.find('=');
              if (end == std::string::npos) {
                throw CLI::ValidationError("--metadata", "must be KEY=VALUE");
              }
              client.metadata.emplace_back(text.substr(0, end),
                                           text.substr(end + 1));
            }
          },
          "Metadata to send with each call. May be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// Flushes stdout and returns `exit_code`. Returns kFailed instead of kOk if
// stdout cannot be written, e.g. because the disk is full.
int AtEnd(int exit_code) {
  if (std::cout.flush() || exit_code != kOk) return exit_code;
  std::cerr << "topk: cannot write to stdout\n";
  return kFailed;
}

// Returns the source of a flag's value: the flag or its environment variable.
std::string SourceOf(const std::string& flag, int argc, char** argv) {
  std::string variable = StrCat("TOPK", flag).erase(4, 1);  // TOPK-tls-ca
  std::ranges::transform(variable, variable.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  const char* const value = std::getenv(variable.c_str());
  const bool is_set = value != nullptr && *value != '\0';
  return is_set && !IsArgument(argc, argv, flag) ? variable : flag;
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
  app.failure_message([argc, argv](const CLI::App*, const CLI::Error& error) {
    const auto find = [=](const std::string& flag) {
      return SourceOf(flag, argc, argv);
    };
    return StrCat("topk: ", UsageText(error.what(), find),
                  "\nRun with --help for more information.\n");
  });
  RunFlags run;
  CLI::App* run_command = app.add_subcommand(
      "run",
      "Selects from a .npy, .npz or text file and prints a line per "
      "slice");
  AddRunFlags(*run_command, run);
  AddClientFlags(*run_command, run.client);
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
  AddClientFlags(*health, health_client);
  bool json = false;
  CLI::App* info = app.add_subcommand(
      "info", "Prints a server's dialects, types, backends and limits");
  info->add_flag("--json", json, "Print JSON");
  AddClientFlags(*info, info_client);
  BenchFlags bench;
  CLI::App* bench_command = app.add_subcommand(
      "bench", "Loads a server with random tensors and verifies the results");
  AddBenchFlags(*bench_command, bench);
  AddClientFlags(*bench_command, bench.client);

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
}  // namespace topk::cli

int main(int argc, char** argv) {
  // Turn off gRPC's log, because the status of a failed call describes the
  // error. setenv is safe here because there is no other thread yet.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    return topk::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "topk: not enough memory\n";
  } catch (const std::exception& error) {  // e.g. starting a thread failed
    std::cerr << "topk: " << error.what() << "\n";
  }
  return topk::cli::kFailed;
}
