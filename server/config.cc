#include "server/config.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr int kUsageError = 2;
constexpr int kHealthcheckUsageError = 1;

std::string Environment(const std::string& name) {
  const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// CLI11 alone would let the config file outrank the environment. What a
// variable sets is dropped from the file here; unknown keys are not, so that
// they stay errors.
class FileBelowEnvironment final : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(in);
    std::erase_if(read, [this](const CLI::ConfigItem& item) {
      const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
      return item.parents.empty() && option != nullptr &&
             !Environment(option->get_envname()).empty();
    });
    return read;
  }

 private:
  const CLI::App& app_;
};

// host:port with a port in range; the host may be an IPv6 address in brackets.
std::string CheckHostPort(const std::string& address) {
  const std::string wanted = Cat("\"", address, "\" is not host:port");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return wanted;
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65535) {
    return Cat(wanted, " with a port of 0 .. 65535");
  }
  return "";
}

std::string CheckListen(const std::string& address) {
  constexpr size_t kMaxUnixPath = 107;  // sun_path with its final NUL
  if (!address.starts_with("unix:")) return CheckHostPort(address);
  const size_t length = address.size() - 5;
  if (length == 0) return "unix: needs a path";
  return length <= kMaxUnixPath ? ""
                                : Cat("the path of a unix socket has at most ",
                                      kMaxUnixPath, " bytes, not ", length);
}

std::string CheckMetricsListen(const std::string& address) {
  if (address.empty()) return "";
  if (address.starts_with('[')) {
    return Cat("\"", address, "\": metrics are served over IPv4 only");
  }
  return CheckHostPort(address);
}

std::string CheckAdminListen(const std::string& address) {
  return address.empty() ? "" : CheckHostPort(address);
}

// Permissions in octal; rewrites them as a decimal number.
std::string ReadMode(std::string& text) {
  unsigned mode = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc() || rest != end || mode > 0777) {
    return Cat("\"", text, "\" is not a mode of 0 .. 0777 in octal");
  }
  text = std::to_string(mode);
  return "";
}

std::string CheckPrefix(const std::string& prefix) {
  if (prefix.starts_with('/') && prefix.find('/', 1) == std::string::npos) {
    return "";
  }
  return Cat(Quote(prefix), " does not begin with the one slash that it has");
}

// A number of 0 to 1. CLI11's own range lets NaN through.
std::string ReadShare(std::string& text) {
  double share = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, share);
  if (error == std::errc() && rest == end && share >= 0 && share <= 1)
    return "";
  return Cat("\"", text, "\" is not a share of 0 to 1");
}

// A duration in seconds, with or without a unit; rewrites it as a number.
CLI::Validator Seconds(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const char* end = text.data() + text.size();
    double seconds = 0;
    const auto [rest, error] = std::from_chars(text.data(), end, seconds);
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (unit == "ms") seconds /= 1000;
    if (unit == "m") seconds *= 60;
    const bool known =
        unit.empty() || unit == "s" || unit == "ms" || unit == "m";
    // Written so that NaN, which compares with nothing, is refused.
    if (error != std::errc() || !known ||
        !(seconds >= least && seconds <= most)) {
      return Cat("\"", text, "\" is not a duration such as 25, 1.5s, 500ms or ",
                 "1m in the range of ", CLI::detail::to_string(least), " s to ",
                 CLI::detail::to_string(most), " s");
    }
    text = CLI::detail::to_string(seconds);
    return "";
  };
  return CLI::Validator(check, "DURATION");
}

void AddServerFlags(CLI::App& app, ServerConfig& config) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  app.add_option("--listen", config.listen,
                 "Where to serve gRPC: host:port, with port 0 for any free "
                 "one, or unix:path. May be repeated, or be a list with "
                 "commas. There is no encryption and no authentication here, "
                 "so the default is this machine alone; 0.0.0.0:50051 serves "
                 "all")
      ->envname("TOPKD_LISTEN")
      ->delimiter(',')
      ->check(CLI::Validator(CheckListen, "ADDRESS"))
      ->capture_default_str();
  app.add_option("--unix-socket-mode", config.unix_socket_mode,
                 "Who may connect to unix: sockets, in octal as chmod has it: "
                 "whoever may write. 0660 lets the group in, 0666 everybody")
      ->envname("TOPKD_UNIX_SOCKET_MODE")
      ->transform(CLI::Validator(ReadMode, "MODE"))
      ->default_str("0600");
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Where to serve Prometheus metrics at /metrics: host:port; "
                 "off if empty")
      ->envname("TOPKD_METRICS_LISTEN")
      ->check(CLI::Validator(CheckMetricsListen, "ADDRESS"));
  app.add_option("--admin-listen", config.admin_listen,
                 "Where to serve channelz, which tells of all connections and "
                 "calls, and reflection, over gRPC in plain text: host:port; "
                 "off if empty. For operators alone")
      ->envname("TOPKD_ADMIN_LISTEN")
      ->check(CLI::Validator(CheckAdminListen, "ADDRESS"));
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
  app.add_flag("--allow-shared-memory", config.allow_shared_memory,
               "Take tensors from POSIX shared memory and put answers there: "
               "whoever may connect can then read and write each object with "
               "the prefix that this process can")
      ->envname("TOPKD_ALLOW_SHARED_MEMORY");
  app.add_option("--shared-memory-prefix", config.shared_memory_prefix,
                 "What the names of these objects begin with")
      ->envname("TOPKD_SHARED_MEMORY_PREFIX")
      ->check(CLI::Validator(CheckPrefix, "PREFIX"))
      ->capture_default_str();
  app.add_option("--drain-timeout", config.drain_timeout_seconds,
                 "How long calls may run on after SIGTERM, in seconds or with "
                 "a unit, e.g. 500ms. Keep it below the grace period of what "
                 "sends SIGTERM (30 s in Kubernetes)")
      ->envname("TOPKD_DRAIN_TIMEOUT")
      ->transform(Seconds(0, 86400))
      ->capture_default_str();
  app.add_option("--ready-file", config.ready_file,
                 "Where to write the bound addresses, as JSON, when serving; "
                 "removed at exit")
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
  app.add_option("--access-log-sample", config.access_log_sample,
                 "The share of requests that are OK which have a line in the "
                 "log, 0 to 1; those that their caller traces all have one "
                 "unless it is 0. What failed has one anyhow")
      ->envname("TOPKD_ACCESS_LOG_SAMPLE")
      ->transform(CLI::Validator(ReadShare, "SHARE"))
      ->capture_default_str();
  app.add_option("--slow-request", config.slow_request_seconds,
                 "Requests that took longer have a line in the log, as a "
                 "warning, in seconds or with a unit; 0 for none")
      ->envname("TOPKD_SLOW_REQUEST")
      ->transform(Seconds(0, 86400))
      ->capture_default_str();
}

CLI::App* AddHealthcheck(CLI::App& app, HealthcheckConfig& config) {
  CLI::App* command = app.add_subcommand(
      "healthcheck",
      "Asks a server whether it serves. Exit status: 0 yes, 1 wrong "
      "arguments, 2 no connection, 3 the call failed, 4 not serving");
  command->configurable(false);
  command
      ->add_option("--target", config.target,
                   "The server's address: host:port or unix:path")
      ->envname("TOPKD_HEALTHCHECK_TARGET")
      ->capture_default_str();
  command->add_option("--service", config.service,
                      "The service to ask about; the whole server if not "
                      "given");
  command
      ->add_option("--timeout", config.timeout_seconds,
                   "How long to wait for the answer, in seconds or with a unit")
      ->transform(Seconds(0.001, 3600))
      ->capture_default_str();
  return command;
}

}  // namespace

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app("topkd serves TopK of ONNX, OpenVINO and DirectML over gRPC",
               "topkd");
  app.set_version_flag("--version", "topkd " TOPK_VERSION);
  // CLI11 reads the environment after the config file, too late to name it.
  const std::string file = Environment("TOPKD_CONFIG");
  app.set_config("--config", file, "A file of settings, `flag = value` a line",
                 /*config_required=*/!file.empty())
      ->envname("TOPKD_CONFIG");
  app.config_formatter(std::make_shared<FileBelowEnvironment>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return Cat("topkd: ", error.what(),
               "\nRun with --help for the settings.\n");
  });
  app.footer(
      "Flags outrank environment variables (TOPKD_THREADS for --threads), "
      "which outrank the config file. SIGTERM drains: calls under way finish; "
      "a second one ends the process. Exit status: 0 after a drain, 1 failure, "
      "2 wrong settings.");
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
