#include "server/config.h"

#include <CLI/CLI.hpp>
#include <cctype>
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

// The one table of settings: each row is a flag, a variable of the environment
// and a key of the config file.
class Table {
 public:
  explicit Table(CLI::App& app) : app_(app) {}

  // Rows from now on stand under this heading of --help.
  void Heading(std::string heading) { heading_ = std::move(heading); }

  template <class Value>
  CLI::Option* Row(const std::string& name, Value& value,
                   const std::string& help) {
    return Finish(
        name, app_.add_option("--" + name, value, help)->capture_default_str());
  }
  CLI::Option* Switch(const std::string& name, bool& value,
                      const std::string& help) {
    return Finish(name, app_.add_flag("--" + name, value, help));
  }

 private:
  CLI::Option* Finish(const std::string& name, CLI::Option* option) const {
    std::string variable = "TOPKD_" + name;
    for (char& c : variable) {
      c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    }
    return option->envname(variable)->group(heading_);
  }

  CLI::App& app_;
  std::string heading_;
};

const CLI::Validator kAddress(CheckListen, "ADDRESS");

// A number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB.
CLI::Validator Bytes(int64_t least, int64_t most) {
  const CLI::AsSizeValue size(/*kb_is_1000=*/false);
  const CLI::Range range(least, most);
  const auto check = [size, range](std::string& text) -> std::string {
    std::string error = size(text);
    return error.empty() ? range(text) : error;
  };
  return CLI::Validator(check, "BYTES");
}

void AddListening(Table& table, ServerConfig& config) {
  table.Heading("Listening");
  table
      .Row("listen", config.listen,
           "Where to serve gRPC: host:port, with port 0 for any free one, or "
           "unix:path. May be repeated, or be a list with commas. There is no "
           "encryption and no authentication here, so the default is this "
           "machine alone; 0.0.0.0:50051 serves all")
      ->delimiter(',')
      ->check(kAddress);
  table
      .Row("unix-socket-mode", config.unix_socket_mode,
           "Who may connect to unix: sockets, in octal as chmod has it: "
           "whoever may write. 0660 lets the group in, 0666 everybody")
      ->transform(CLI::Validator(ReadMode, "MODE"))
      ->default_str("0600");
  table
      .Row("metrics-listen", config.metrics_listen,
           "Where to serve Prometheus metrics at /metrics: host:port; off if "
           "empty")
      ->check(CLI::Validator(CheckMetricsListen, "ADDRESS"));
  table
      .Row("admin-listen", config.admin_listen,
           "Where to serve channelz, which tells of all connections and calls, "
           "and reflection, over gRPC in plain text: host:port; off if empty. "
           "For operators alone")
      ->check(CLI::Validator(CheckAdminListen, "ADDRESS"));
  table.Row("ready-file", config.ready_file,
            "Where to write the bound addresses, as JSON, when serving; "
            "removed at exit");
}

void AddWork(Table& table, ServerConfig& config) {
  table.Heading("Work");
  table
      .Row("threads", config.threads,
           "Threads that compute; 0 for as many as the affinity mask and the "
           "cgroup's quota grant")
      ->check(CLI::Range(0, 4096));
  table.Switch("allow-shared-memory", config.allow_shared_memory,
               "Take tensors from POSIX shared memory and put answers there: "
               "whoever may connect can then read and write each object with "
               "the prefix that this process can");
  table
      .Row("shared-memory-prefix", config.shared_memory_prefix,
           "What the names of these objects begin with")
      ->check(CLI::Validator(CheckPrefix, "PREFIX"));
}

void AddLimits(Table& table, ServerConfig& config) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  table.Heading("Limits of one request");
  table
      .Row("max-message-bytes", config.max_message_bytes,
           "The largest request message; larger tensors are streamed")
      ->transform(Bytes(1024, std::numeric_limits<int32_t>::max()));
  table
      .Row("max-elements", config.max_elements,
           "The most elements of one tensor")
      ->check(CLI::Range(int64_t{1}, kMost));
  table
      .Row("max-output-bytes", config.max_output_bytes,
           "The largest answer, values and indices together")
      ->transform(Bytes(1, config.max_output_bytes));
  table.Heading("Limits of all requests together");
  table
      .Row("max-inflight-bytes", config.max_inflight_bytes,
           "What requests under way, their answers and the work on them may "
           "take; 0 for 40 % of the memory that the machine and the cgroup "
           "grant")
      ->transform(Bytes(0, kMost));
  table
      .Row("max-inflight-requests", config.max_inflight_requests,
           "How many calls may be under way, open streams among them")
      ->check(CLI::Range(int64_t{1}, kMost));
  table
      .Row("max-client-inflight-bytes", config.max_client_inflight_bytes,
           "The same of one client; 0 for half of max-inflight-bytes. A client "
           "is who it proves to be, or else an address")
      ->transform(Bytes(0, kMost));
  table
      .Row("max-client-inflight-requests", config.max_client_inflight_requests,
           "The same of one client; 0 for half of max-inflight-requests")
      ->check(CLI::Range(int64_t{0}, kMost));
  table
      .Row(
          "max-receive-memory", config.max_receive_memory,
          "What gRPC may take for messages that are arriving or waiting: the "
          "last line, behind which it ends calls without a word; 0 for 40 % of "
          "the memory")
      ->transform(Bytes(0, kMost));
}

void AddDrain(Table& table, ServerConfig& config) {
  table.Heading("Draining");
  table
      .Row("drain-delay", config.drain_delay_seconds,
           "How long to serve on after SIGTERM while health says NOT_SERVING, "
           "so that balancers turn away first; a unit may follow, e.g. 500ms")
      ->transform(Seconds(0, 3600));
  table
      .Row("drain-timeout", config.drain_timeout_seconds,
           "How long calls may run on after that. Keep the sum of both below "
           "the grace period of what sends SIGTERM (30 s in Kubernetes)")
      ->transform(Seconds(0, 86400));
}

void AddLogging(Table& table, ServerConfig& config) {
  table.Heading("Logging");
  table.Row("log-level", config.log_level, "The least level that is logged")
      ->check(
          CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  table.Row("log-format", config.log_format, "The form of the log")
      ->check(CLI::IsMember({"text", "json"}));
  table
      .Row("access-log-sample", config.access_log_sample,
           "The share of requests that are OK which have a line in the log, 0 "
           "to 1; those that their caller traces all have one unless it is 0. "
           "What failed has one anyhow")
      ->transform(CLI::Validator(ReadShare, "SHARE"));
  table
      .Row("slow-request", config.slow_request_seconds,
           "Requests that took longer have a line in the log, as a warning, in "
           "seconds or with a unit; 0 for none")
      ->transform(Seconds(0, 86400));
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
  Table table(app);
  AddListening(table, result.server);
  AddWork(table, result.server);
  AddLimits(table, result.server);
  AddDrain(table, result.server);
  AddLogging(table, result.server);
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
