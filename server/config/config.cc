#include "server/config/config.h"

#include <grpcpp/version_info.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "core/backends/registry.h"
#include "core/base/text.h"
#include "core/base/usage_text.h"
#include "core/security/small_file.h"
#include "server/config/config_table.h"
#include "server/config/config_values.h"
#include "server/config/otel_variables.h"
#include "server/config/security_flags.h"

namespace topk {
namespace {

constexpr int kUsageError = 2;
constexpr int kHealthcheckUsageError = 1;

std::string Environment(const std::string& name) {
  const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// In CLI11 the config file takes precedence over the environment. This class
// drops the keys that a variable sets from the file; unknown keys are errors.
class FileBelowEnvironment final : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const CLI::App& app) : app_(app) {}

  // Reads the file, or throws. CLI11 would open devices and pipes, and read
  // files without an end.
  void ReadFile(const std::string& path) {
    if (path.empty()) throw CLI::FileError("--config: the value is empty");
    Result<std::string> read = ReadSmallFile({"--config", path});
    if (!read.ok()) throw CLI::FileError(read.status().message);
    text_ = *std::move(read);
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) {
      text_.erase(0, kByteOrderMark.size());
    }
    lines_of_keys_ = JoinLists(path);
  }

  std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
    std::istringstream copy(lines_of_keys_);
    std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(copy);
    for (const CLI::ConfigItem& item : read) {
      const CLI::Option* option = OptionOf(item);
      if (option == nullptr) throw Unknown(item);
      std::string& line = lines_["--" + item.name];
      // CLI11 would ignore what comes later, and take "" for true.
      if (!line.empty()) {
        throw CLI::ConfigError(
            StrCat(PlaceOf(item.name), Quote(item.name), " is set twice"));
      }
      line = StrCat(PlaceOf(item.name), item.name);
      if (option->get_expected_min() == 0 && item.inputs.size() == 1 &&
          item.inputs[0].empty()) {
        throw CLI::ConfigError(line + ": \"\" is not true or false");
      }
    }
    std::erase_if(read, [this](const CLI::ConfigItem& item) {
      return !Environment(OptionOf(item)->get_envname()).empty();
    });
    return read;
  }

  // Returns the file, the line and the key that set a flag; "" if it was not in
  // the file.
  std::string LineOf(const std::string& flag) const {
    const auto found = lines_.find(flag);
    return found == lines_.end() ? "" : found->second;
  }

 private:
  // Returns the text with each list on one line: CLI11 reads neither a list
  // that begins behind the line of its key nor a comment in a list. Throws for
  // a list without an end, and for a line of one or two characters, which CLI11
  // would skip.
  std::string JoinLists(const std::string& path) const {
    std::string joined;
    std::string list;  // with its key, as far as it was read
    int number = 0;
    int list_number = 0;
    const auto fail = [&path](int line, const std::string& fault) {
      throw CLI::ConfigError(StrCat(path, ":", line, ": ", fault));
    };
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      ++number;
      std::string content = line.substr(0, line.find('#'));
      std::erase_if(content, [](unsigned char c) { return std::isspace(c); });
      if (content.empty() || content.front() == ';') continue;
      if (list.empty()) {
        if (content.size() < 3) {
          fail(number, Quote(content) + " is not a line of `flag = value`");
        }
        const size_t equals = content.find('=');
        if (equals == std::string::npos ||
            content.compare(equals + 1, 1, "[") != 0) {
          joined += line + "\n";
          continue;
        }
        list_number = number;
      }
      list += CLI::detail::trim_copy(line.substr(0, line.find('#')));
      if (!content.ends_with(']')) continue;
      joined += list + "\n";
      list.clear();
    }
    if (!list.empty()) fail(list_number, "the list does not end with ]");
    return joined;
  }

  // Returns the option that a key sets; null if there is no such option.
  const CLI::Option* OptionOf(const CLI::ConfigItem& item) const {
    const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
    const bool is_key =
        item.parents.empty() && option != nullptr && option->get_configurable();
    return is_key ? option : nullptr;
  }

  // Returns an error that names the file and the line of an unknown key. CLI11
  // names only the key.
  CLI::ConfigError Unknown(const CLI::ConfigItem& item) const {
    const bool section = !item.parents.empty();
    const std::string& name = section ? item.parents.front() : item.name;
    return CLI::ConfigError(
        StrCat(PlaceOf(name), section ? "unknown section " : "unknown key ",
               Quote(name)));
  }

  // Returns "FILE:LINE: ", the last line that begins with a name.
  std::string PlaceOf(const std::string& name) const {
    int number = 0;
    int found = 0;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const size_t start = line.find_first_not_of(" \t[\"'");
      if (start == std::string::npos ||
          line.compare(start, name.size(), name)) {
        continue;
      }
      const size_t end = start + name.size();
      if (end == line.size() || std::strchr(" \t=]\"'.", line[end])) {
        found = number;
      }
    }
    return StrCat(app_.get_config_ptr()->as<std::string>(), ":",
                  found == 0 ? "" : StrCat(found, ":"), " ");
  }

  const CLI::App& app_;
  std::string text_;
  std::string lines_of_keys_;  // JoinLists()
  mutable std::map<std::string, std::string> lines_;
};

void AddListening(ConfigTable& table, ServerConfig& config) {
  table.Heading("Listening");
  table
      .Row("listen", config.listen,
           "Addresses of the gRPC service: host:port (port 0 picks a free "
           "port) or unix:path. Repeat the flag or separate addresses with "
           "commas. The default accepts connections from this machine only; "
           "0.0.0.0:50051 accepts them from everywhere, see --tls-cert and "
           "--auth-tokens-file")
      ->delimiter(',')
      ->default_str(config.listen.front())
      ->transform(Address());
  table
      .Row("unix-socket-mode",
           std::function<void(const std::string&)>(
               [&config](const std::string& text) {
                 config.unix_socket_mode =
                     static_cast<unsigned>(std::stoul(text, nullptr, 8));
               }),
           "File mode of unix: sockets. Clients need write permission: 0660 "
           "admits the group, 0666 everyone")
      ->check(OctalMode())
      ->default_str("0600");
  table
      .Row("metrics-listen", config.metrics_listen,
           "Address of the Prometheus metrics, at the path /metrics. An empty "
           "value disables them")
      ->check(HttpAddress());
  table
      .Row("health-listen", config.health_listen,
           "Address of a plaintext port for health checks by probes without a "
           "certificate. An empty value disables it")
      ->check(PlainAddress());
  table
      .Row("admin-listen", config.admin_listen,
           "Address of a plaintext port for operators, with channelz and "
           "reflection. Channelz shows all connections and calls. An empty "
           "value disables it")
      ->check(PlainAddress());
  table.Row("ready-file", config.ready_file,
            "File that receives the bound addresses as JSON once the server "
            "accepts calls. The server removes it at exit, unless a second "
            "signal ends it");
}

std::vector<std::string> BackendChoices() {
  std::vector<std::string> choices = BackendNames();
  choices.insert(choices.begin(), kAutoBackend);
  return choices;
}

void AddWork(ConfigTable& table, ServerConfig& config) {
  table.Heading("Work");
  table
      .Row("threads", config.threads,
           "Number of compute threads; 0 uses all CPUs that the affinity mask "
           "and the cgroup quota grant")
      ->transform(Whole(0, 4096));
  table
      .Row("backend", config.backend,
           "Compute backend; auto uses the faster one for each request. The "
           "backend cuda requires a build with TOPK_WITH_CUDA and a device, "
           "and uses the CPU for requests that CUDA does not support")
      ->check(CLI::IsMember(BackendChoices()));
  table
      .Row("device-memory-bytes", config.device_memory_bytes,
           "Max memory to use on each device; 0 uses half of it")
      ->transform(Bytes(0, std::numeric_limits<int64_t>::max()));
  table
      .Row("pollers", config.pollers,
           "Number of threads that poll connections and compute small "
           "requests; 0 uses half the compute threads. One poller gives the "
           "lowest latency of small calls on two CPUs; with two or more, a "
           "connection that floods the server delays others less")
      ->transform(Whole(0, 4096));
  table.Switch(
      "allow-shared-memory", config.allow_shared_memory,
      "Read tensors from POSIX shared memory and write results to it. "
      "Every client can then access each object that has the prefix and "
      "that this process can access");
  table
      .Row("shared-memory-prefix", config.shared_memory_prefix,
           "Required prefix of the names of shared memory objects")
      ->check(ObjectPrefix());
}

void AddLimits(ConfigTable& table, ServerConfig& config) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  table.Heading("Limits of one request");
  table
      .Row("max-message-bytes", config.max_message_bytes,
           "Max size of a request message; larger tensors need StreamTopK")
      ->transform(Bytes(1024, std::numeric_limits<int32_t>::max()));
  table
      .Row("max-elements", config.max_elements,
           "Max number of elements of a tensor")
      ->transform(Whole(1, kMax));
  table
      .Row("max-selected-elements", config.max_selected_elements,
           "Max number of selected elements of a request, k per slice")
      ->transform(Whole(1, config.max_selected_elements));
  table
      .Row("max-rank", config.max_rank, "Max number of dimensions of a tensor")
      ->transform(Whole(1, 4096));
  table
      .Row("max-output-bytes", config.max_output_bytes,
           "Max size of values and indices of a response together")
      ->transform(Bytes(1, config.max_output_bytes));
  table.Heading("Limits of all requests together");
  table
      .Row("max-inflight-bytes", config.max_inflight_bytes,
           "Max memory of all requests in flight; 0 uses a quarter of the "
           "memory of the machine or, if less, of the cgroup. It includes "
           "responses and working memory")
      ->transform(Bytes(0, kMax));
  table
      .Row("max-inflight-calls", config.max_inflight_calls,
           "Max number of calls in flight, open streams included")
      ->transform(Whole(1, kMax));
  table
      .Row("max-client-inflight-bytes", config.max_client_inflight_bytes,
           "Max memory of one client's requests in flight; 0 uses half of "
           "--max-inflight-bytes. A client is identified by its "
           "token, else its certificate, else its address")
      ->transform(Bytes(0, kMax));
  table
      .Row("max-client-inflight-calls", config.max_client_inflight_calls,
           "Max number of one client's calls in flight; 0 uses half of "
           "--max-inflight-calls")
      ->transform(Whole(0, kMax));
  table
      .Row("max-receive-memory", config.max_receive_memory,
           "Max memory of gRPC for messages that are arriving or queued; 0 "
           "uses 60 % of the memory. Beyond it gRPC closes calls without a "
           "status")
      ->transform(Bytes(0, kMax));
}

void AddConnections(ConfigTable& table, ConnectionOptions& options) {
  // gRPC counts in milliseconds, in 32 bits: 24 days.
  constexpr double kMax = 2000000;
  table.Heading("Connections");
  table
      .Row("handshake-timeout", options.handshake_timeout,
           "Max time for the TLS handshake and the first HTTP/2 frames of a "
           "connection")
      ->transform(Seconds(0.001, kMax));
  table
      .Row("keepalive-time", options.keepalive_time,
           "Idle time after which the server pings a client")
      ->transform(Seconds(1, kMax));
  table
      .Row("keepalive-timeout", options.keepalive_timeout,
           "Max time for the response to that ping. The connection is closed "
           "afterwards")
      ->transform(Seconds(0.001, kMax));
  table
      .Row("min-ping-interval", options.min_ping_interval,
           "Min interval of a client's pings. Clients that ping more often are "
           "disconnected")
      ->transform(Seconds(0, kMax));
  table
      .Row("max-connection-idle", options.max_connection_idle,
           "Max time of a connection without calls; 0 for no limit")
      ->transform(Seconds(0, kMax));
  table
      .Row("max-connection-age", options.max_connection_age,
           "Max age at which a connection accepts calls, with 10 % jitter; 0 "
           "for no limit. Clients then reconnect, possibly to a newer server")
      ->transform(Seconds(0, kMax));
  table
      .Row("max-connection-age-grace", options.max_connection_age_grace,
           "Max time for the calls of such a connection to finish")
      ->transform(Seconds(0, kMax));
  table
      .Row("max-connections", options.max_connections,
           "Max number of open connections; 0 for no limit except that of file "
           "descriptors. Further ones are closed at once")
      ->transform(Whole(0, 1 << 20));
  table
      .Row("max-connections-per-client", options.max_connections_per_client,
           "Max number of open connections of one client address; 0 for no "
           "limit. An IPv6 client is a network of --client-ipv6-prefix bits, "
           "and a proxy is one address")
      ->transform(Whole(0, 1 << 20));
  table
      .Row("max-concurrent-streams", options.max_concurrent_streams,
           "Max number of calls in flight per connection")
      ->transform(Whole(1, 1 << 20));
  table
      .Row("max-metadata-bytes", options.max_metadata_bytes,
           "Max size of a call's metadata in bytes, with 32 bytes of overhead "
           "per field")
      ->transform(Whole(1024, 1 << 20));
}

void AddDrain(ConfigTable& table, ServerConfig& config) {
  table.Heading("Draining");
  table
      .Row("drain-delay", config.drain_delay_seconds,
           "Time after SIGTERM during which calls are accepted while health "
           "reports NOT_SERVING. Load balancers stop sending traffic in it")
      ->transform(Seconds(0, 3600));
  table
      .Row("drain-timeout", config.drain_timeout_seconds,
           "Max time for calls in flight to finish afterwards. Keep the sum "
           "of both below the grace period of the process manager (30 s in "
           "Kubernetes)")
      ->transform(Seconds(0, 86400));
}

void AddLogging(ConfigTable& table, ServerConfig& config) {
  table.Heading("Logging");
  table.Row("log-level", config.log_level, "Lowest level that is logged")
      ->check(
          CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  table.Row("log-format", config.log_format, "Format of log lines")
      ->check(CLI::IsMember({"text", "json"}));
  table
      .Row("access-log-sample", config.access_log_sample,
           "Share of successful requests that are logged. Requests "
           "that the caller traces are always logged unless it is 0; failed "
           "requests always are")
      ->check(Share());
  table
      .Row("slow-request", config.slow_request_seconds,
           "Duration above which a request is logged as a warning; 0 disables "
           "it")
      ->transform(Seconds(0, 86400));
}

void AddTraces(ConfigTable& table, ServerConfig& config) {
  table.Heading("Traces");
  table
      .Row("otlp-endpoint", config.traces.endpoint,
           "URL of an OpenTelemetry collector that receives spans: "
           "http://host:port or https://host:port. The default are the "
           "variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and "
           "OTEL_EXPORTER_OTLP_ENDPOINT; other variables of OpenTelemetry "
           "choose the sampler and describe the service")
      ->transform(Collector());
}

// The settings as lines of a config file, without the sub-commands'.
std::string Settings(const CLI::App& app) {
  std::istringstream all(app.config_to_str(/*default_also=*/true));
  std::string lines;
  for (std::string line; std::getline(all, line);) {
    const std::string key = line.substr(0, line.find('='));
    if (key.find('.') != std::string::npos) continue;
    // CLI11 cannot read back its own text for an empty list: [] in 2.1, {} in
    // 2.4.
    const CLI::Option* option = app.get_option_no_throw("--" + key);
    const bool is_empty_list = option != nullptr && option->count() == 0 &&
                               (option->get_default_str() == "[]" ||
                                option->get_default_str() == "{}");
    if (!is_empty_list) lines += line + "\n";
  }
  return lines;
}

// Throws for a value that a config file cannot hold: CLI11 2.1 ends it at a
// line break or a #, also between quotes.
void CheckReadsBack(const CLI::App& app, const std::string& settings) {
  std::istringstream in(settings);
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
    const CLI::Option* option = app.get_option_no_throw("--" + item.name);
    if (option == nullptr || option->count() == 0) continue;
    const CLI::results_t values = option->reduced_results();
    if (values != item.inputs) {
      throw CLI::ValidationError(
          "--" + item.name,
          Quote(values.front()) + " cannot be written to a config file");
    }
  }
}

// CLI11 2.4 ignores a variable whose value fails its check, which it applies to
// a list as a whole. Sets such options from their variables, or throws.
void ApplyRejectedVariables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string value = Environment(option->get_envname());
    if (option->count() > 0 || value.empty()) continue;
    option->add_result(value);
    option->run_callback();
  }
}

// Throws for an empty value, e.g. that of an unset shell variable: of a switch,
// which it would turn on, and of a flag or variable of TLS, tokens or rates,
// whose security it would turn off. A config file may have the latter, because
// --check-config prints them.
void CheckEmptyValues(const CLI::App& app, int argc, const char* const* argv) {
  const auto fail = [](const std::string& source) {
    throw CLI::ValidationError(source, "the value is empty");
  };
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->get_expected_min() == 0 &&
        std::count(argv, argv + argc, name + "=") > 0) {
      fail(name);
    }
    if (!name.starts_with("--tls") && !name.starts_with("--auth") &&
        !name.starts_with("--client")) {
      continue;
    }
    if (IsArgument(argc, argv, name)) {
      if (option->results() == CLI::results_t{""}) fail(name);
    } else if (const char* variable =
                   std::getenv(option->get_envname().c_str());
               variable != nullptr && *variable == '\0') {
      fail(option->get_envname());
    }
  }
}

// Throws for a variable TOPKD_... that sets nothing: a typo must not go
// unnoticed. Kubernetes puts such into each container, for services by that
// name.
void CheckEnvironment(const CLI::App& app) {
  std::set<std::string> known;
  const auto add = [&known](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      known.insert(option->get_envname());
    }
  };
  const char* file = std::getenv("TOPKD_CONFIG");
  if (file != nullptr && *file == '\0' && app.get_config_ptr()->count() == 0) {
    throw CLI::ValidationError("TOPKD_CONFIG", "the value is empty");
  }
  add(app);
  for (const CLI::App* command : app.get_subcommands({})) add(*command);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const auto has = [&](const char* part) {
      return name.find(part) != std::string::npos;
    };
    const bool of_kubernetes = has("_SERVICE_HOST") || has("_SERVICE_PORT") ||
                               has("_PORT_") || name.ends_with("_PORT");
    if (name.starts_with("TOPKD_") && !known.contains(name) && !of_kubernetes) {
      throw CLI::ValidationError(Quote(name), "the variable sets nothing");
    }
  }
}

// Returns the option of a name, preferably one of the command that is used;
// null if there is no such option.
const CLI::Option* FindOption(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands()) {
    if (const auto* option = command->get_option_no_throw(name)) return option;
  }
  return app.get_option_no_throw(name);
}

CLI::App* AddHealthcheck(CLI::App& app, HealthcheckConfig& config) {
  CLI::App* command = app.add_subcommand(
      "healthcheck",
      "Checks the health of a server. Exit status: 0 serving, 1 invalid "
      "arguments, 2 no connection, 3 the call failed, 4 not serving");
  command->configurable(false);
  command
      ->add_option("--target", config.target,
                   "Address of the server: host:port or unix:path")
      ->envname("TOPKD_HEALTHCHECK_TARGET")
      ->capture_default_str();
  command->add_option(
      "--service", config.service,
      "Name of the service to check; default: the whole server");
  command
      ->add_option("--timeout", config.timeout_seconds,
                   "Max time for the response, in seconds or with a unit")
      ->transform(Seconds(0.001, 3600))
      ->capture_default_str();
  AddHealthcheckTlsFlags(*command, config);
  return command;
}

CLI::App* AddHashToken(CLI::App& app, std::string& name) {
  CLI::App* command = app.add_subcommand(
      "hash-token",
      "Reads a token from stdin and prints its line for --auth-tokens-file");
  command->configurable(false);
  command
      ->add_option("name", name,
                   "Name of the token's owner, for limits and logs")
      ->required();
  return command;
}

}  // namespace

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app("topkd serves TopK of ONNX, OpenVINO and DirectML over gRPC",
               "topkd");
  app.set_version_flag(
      "--version", "topkd " TOPK_VERSION " (gRPC " GRPC_CPP_VERSION_STRING ")");
  // CLI11 reads the environment after the config file, too late to name it.
  const std::string file = Environment("TOPKD_CONFIG");
  const auto reader = std::make_shared<FileBelowEnvironment>(app);
  app.set_config("--config", file, "Config file with lines of `flag = value`",
                 /*config_required=*/!file.empty())
      ->envname("TOPKD_CONFIG")
      ->check([&reader = *reader](const std::string& path) {
        reader.ReadFile(path);
        return std::string();
      });
  app.config_formatter(reader);
  app.allow_config_extras(CLI::config_extras_mode::error);
  const auto find = [&, argc, argv](const std::string& flag) {
    const CLI::Option* option = FindOption(app, flag);
    UsageFlag found{.type = "", .source = flag};
    if (option == nullptr) return found;
    found.type = option->get_type_name();
    if (IsArgument(argc, argv, flag)) return found;
    if (!Environment(option->get_envname()).empty()) {
      found.source = option->get_envname();
    } else if (const std::string line = reader->LineOf(flag); !line.empty()) {
      found.source = line;
    }
    return found;
  };
  app.failure_message([find](const CLI::App* used, const CLI::Error& error) {
    const std::vector<std::string> unknown = used->remaining(/*recurse=*/true);
    return StrCat("topkd: ",
                  unknown.empty()
                      ? UsageText(error.what(), find)
                      : StrCat("unknown argument ", Quote(unknown.front())),
                  "\nRun with --help for the settings.\n");
  });
  app.footer(
      "Flags take precedence over environment variables (TOPKD_THREADS for "
      "--threads), and these over the config file. Sizes may have a unit: KiB, "
      "MiB and GiB, or KB, MB and GB, which mean the same. SIGTERM drains the "
      "server: calls in flight finish; a second SIGTERM ends the process. Exit "
      "status: 0 after a drain, 1 failure, 2 invalid settings.");
  ConfigTable table(app);
  AddListening(table, result.server);
  AddSecurityFlags(table, result.server.security);
  AddWork(table, result.server);
  AddLimits(table, result.server);
  AddConnections(table, result.server.connections);
  AddDrain(table, result.server);
  AddLogging(table, result.server);
  AddTraces(table, result.server);
  const CLI::App* healthcheck = AddHealthcheck(app, result.healthcheck);
  const CLI::App* hash_token = AddHashToken(app, result.token_name);

  bool check = false;
  app.add_flag("--check-config", check,
               "Validate the settings, print them and exit without starting "
               "the server")
      ->configurable(false);
  try {
    app.parse(argc, argv);
    CheckEnvironment(app);
    const std::vector<CLI::App*> commands = app.get_subcommands();
    CheckEmptyValues(commands.empty() ? app : *commands.front(), argc, argv);
    ApplyRejectedVariables(app);
    result.settings = Settings(app);
    if (check) CheckReadsBack(app, result.settings);
  } catch (const CLI::ParseError& error) {
    result.action = CommandLine::Action::kExit;
    const bool ok = app.exit(error, std::cout, std::cerr) == 0;
    result.exit_code = ok                      ? 0
                       : healthcheck->parsed() ? kHealthcheckUsageError
                                               : kUsageError;
    return result;
  }
  result.server.traces =
      ReadTraceConfig(result.server.traces.endpoint, Environment);
  if (healthcheck->parsed()) {
    result.action = CommandLine::Action::kHealthcheck;
  } else if (hash_token->parsed()) {
    result.action = CommandLine::Action::kHashToken;
  } else if (check) {
    result.action = CommandLine::Action::kCheckConfig;
  }
  return result;
}

}  // namespace topk
