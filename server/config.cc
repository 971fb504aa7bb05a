#include "server/config.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>

namespace topk {
namespace {

constexpr int kUsageError = 2;
constexpr int kHealthcheckUsageError = 1;

// A listening address: host:port with a port in range, or unix:path.
std::string CheckAddress(const std::string& address) {
  if (address.rfind("unix:", 0) == 0) {
    return address.size() > 5 ? "" : "unix: needs a path";
  }
  const size_t colon = address.rfind(':');
  const std::string wanted =
      "\"" + address + "\" is not host:port or unix:path";
  if (colon == std::string::npos || colon == 0) return wanted;
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65535) {
    return wanted;
  }
  return "";
}

void AddServerFlags(CLI::App& app, ServerConfig& config) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  const CLI::Validator address(CheckAddress, "ADDRESS");
  app.add_option("--listen", config.listen,
                 "Where to serve gRPC: host:port, with port 0 for any free "
                 "one, or unix:path. May be repeated")
      ->envname("TOPKD_LISTEN")
      ->delimiter(',')
      ->check(address)
      ->capture_default_str();
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Where to serve Prometheus metrics at /metrics: host:port; "
                 "off if not given")
      ->envname("TOPKD_METRICS_LISTEN")
      ->check(address);
  app.add_option("--threads", config.threads,
                 "Threads that compute; 0 for as many as the affinity mask "
                 "and the cgroup's quota grant")
      ->envname("TOPKD_THREADS")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--max-message-bytes", config.max_message_bytes,
                 "The largest request message; larger tensors are streamed")
      ->envname("TOPKD_MAX_MESSAGE_BYTES")
      ->check(CLI::Range(int64_t{1024}, kMaxInt32))
      ->capture_default_str();
  app.add_option("--max-elements", config.max_elements,
                 "The most elements of one tensor")
      ->envname("TOPKD_MAX_ELEMENTS")
      ->check(CLI::Range(int64_t{1}, kMaxInt64))
      ->capture_default_str();
  app.add_option("--max-output-bytes", config.max_output_bytes,
                 "The largest answer, values and indices together")
      ->envname("TOPKD_MAX_OUTPUT_BYTES")
      ->check(CLI::Range(int64_t{1}, config.max_output_bytes))
      ->capture_default_str();
  app.add_option("--drain-timeout", config.drain_timeout_seconds,
                 "Seconds that calls may run on after SIGTERM")
      ->envname("TOPKD_DRAIN_TIMEOUT")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--ready-file", config.ready_file,
                 "Where to write the bound addresses, as JSON, when serving")
      ->envname("TOPKD_READY_FILE");
  app.add_option("--log-level", config.log_level,
                 "The least level that is logged")
      ->envname("TOPKD_LOG_LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.add_option("--log-format", config.log_format, "The form of the log")
      ->envname("TOPKD_LOG_FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

CLI::App* AddHealthcheck(CLI::App& app, HealthcheckConfig& config) {
  CLI::App* command = app.add_subcommand(
      "healthcheck",
      "Asks a server whether it serves. Exit status: 0 yes, 1 wrong "
      "arguments, 2 no connection, 3 the call failed, 4 not serving");
  command->configurable(false);
  command->add_option("--target", config.target, "The server's address")
      ->envname("TOPKD_HEALTHCHECK_TARGET")
      ->capture_default_str();
  command->add_option("--service", config.service,
                      "The service to ask about; the whole server if not "
                      "given");
  command
      ->add_option("--timeout", config.timeout_seconds,
                   "Seconds to wait for the answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  return command;
}

}  // namespace

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app("topkd serves TopK of ONNX, OpenVINO and DirectML over gRPC",
               "topkd");
  app.set_version_flag("--version", "topkd " TOPK_VERSION);
  app.set_config("--config", "", "A file of settings, `flag = value` a line")
      ->envname("TOPKD_CONFIG");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer(
      "Flags outrank environment variables (TOPKD_THREADS for --threads), "
      "which outrank the config file. SIGTERM drains: calls under way finish.");
  AddServerFlags(app, result.server);
  const CLI::App* healthcheck = AddHealthcheck(app, result.healthcheck);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    result.action = CommandLine::Action::kExit;
    const bool ok = app.exit(error, std::cout, std::cerr) == 0;
    result.exit_code = ok                      ? 0
                       : healthcheck->parsed() ? kHealthcheckUsageError
                                               : kUsageError;
    return result;
  }
  if (healthcheck->parsed()) {
    result.action = CommandLine::Action::kHealthcheck;
  }
  return result;
}

}  // namespace topk
