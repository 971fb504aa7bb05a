#include "server/config/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <set>
#include <sstream>

#include "core/base/text.h"
#include "server/config/config_table.h"
#include "server/config/config_values.h"
#include "server/config/security_flags.h"

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

void AddListening(ConfigTable& table, ServerConfig& config) {
  table.Heading("Listening");
  table
      .Row(
          "listen", config.listen,
          "Where to serve gRPC: host:port, with port 0 for any free one, or "
          "unix:path. May be repeated, or be a list with commas. The default "
          "is this machine alone; 0.0.0.0:50051 serves all, see --tls-cert and "
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
           "Who may connect to unix: sockets, in octal as chmod has it: "
           "whoever may write. 0660 lets the group in, 0666 everybody")
      ->check(OctalMode())
      ->default_str("0600");
  table.Switch("xds", config.xds,
               "Serve each address once an xDS control plane names it, and as "
               "it says. GRPC_XDS_BOOTSTRAP names the bootstrap file, or "
               "GRPC_XDS_BOOTSTRAP_CONFIG has its content");
  table
      .Row("metrics-listen", config.metrics_listen,
           "Where to serve Prometheus metrics at /metrics: host:port; off if "
           "empty")
      ->check(HttpAddress());
  table
      .Row("health-listen", config.health_listen,
           "Where to serve grpc.health.v1 and nothing else, in plain text, for "
           "probes that have no certificate: host:port; off if empty")
      ->check(PlainAddress());
  table
      .Row("admin-listen", config.admin_listen,
           "Where to serve channelz, which tells of all connections and calls, "
           "and reflection, over gRPC in plain text: host:port; off if empty. "
           "For operators alone")
      ->check(PlainAddress());
  table.Row("ready-file", config.ready_file,
            "Where to write the bound addresses, as JSON, when serving; "
            "removed at exit");
}

void AddWork(ConfigTable& table, ServerConfig& config) {
  table.Heading("Work");
  table
      .Row("threads", config.threads,
           "Threads that compute; 0 for as many as the affinity mask and the "
           "cgroup's quota grant")
      ->transform(Whole(0, 4096));
  table
      .Row("backend", config.backend,
           "What computes: cpu; cuda, and the CPU what that does not take; or "
           "auto, whichever is expected to be faster for a request. cuda needs "
           "a build with TOPK_WITH_CUDA and a device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  table
      .Row("device-memory-bytes", config.device_memory_bytes,
           "What may be taken of each device's memory; 0 for half of it")
      ->transform(Bytes(0, std::numeric_limits<int64_t>::max()));
  table
      .Row(
          "pollers", config.pollers,
          "Threads that wait for connections and do small requests; 0 for half "
          "as many as compute. With one, small calls are fastest on two "
          "processors; with two or more, one connection that floods the server "
          "does not go before all others")
      ->transform(Whole(0, 4096));
  table.Switch("allow-shared-memory", config.allow_shared_memory,
               "Take tensors from POSIX shared memory and put answers there: "
               "whoever may connect can then read and write each object with "
               "the prefix that this process can");
  table
      .Row("shared-memory-prefix", config.shared_memory_prefix,
           "What the names of these objects begin with")
      ->check(ObjectPrefix());
}

void AddLimits(ConfigTable& table, ServerConfig& config) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  table.Heading("Limits of one request");
  table
      .Row("max-message-bytes", config.max_message_bytes,
           "The largest request message; larger tensors are streamed")
      ->transform(Bytes(1024, std::numeric_limits<int32_t>::max()));
  table
      .Row("max-elements", config.max_elements,
           "The most elements of one tensor")
      ->transform(Whole(1, kMost));
  table
      .Row("max-selected-elements", config.max_selected_elements,
           "The most elements of an answer: k for each slice")
      ->transform(Whole(1, kMost));
  table.Row("max-rank", config.max_rank, "The most dimensions of one tensor")
      ->transform(Whole(1, 4096));
  table
      .Row("max-output-bytes", config.max_output_bytes,
           "The largest answer, values and indices together")
      ->transform(Bytes(1, config.max_output_bytes));
  table.Heading("Limits of all requests together");
  table
      .Row("max-inflight-bytes", config.max_inflight_bytes,
           "What requests under way, their answers and the work on them may "
           "take; 0 for a quarter of the memory that the machine and the "
           "cgroup grant")
      ->transform(Bytes(0, kMost));
  table
      .Row("max-inflight-requests", config.max_inflight_requests,
           "How many calls may be under way, open streams among them")
      ->transform(Whole(1, kMost));
  table
      .Row("max-client-inflight-bytes", config.max_client_inflight_bytes,
           "The same of one client; 0 for half of max-inflight-bytes. A client "
           "is who it proves to be, or else an address")
      ->transform(Bytes(0, kMost));
  table
      .Row("max-client-inflight-requests", config.max_client_inflight_requests,
           "The same of one client; 0 for half of max-inflight-requests")
      ->transform(Whole(0, kMost));
  table
      .Row(
          "max-receive-memory", config.max_receive_memory,
          "What gRPC may take for messages that are arriving or waiting: the "
          "last line, behind which it ends calls without a word; 0 for 60 % of "
          "the memory")
      ->transform(Bytes(0, kMost));
}

void AddConnections(ConfigTable& table, ConnectionCare& care) {
  // gRPC counts in milliseconds, in 32 bits: 24 days.
  constexpr double kMost = 2000000;
  table.Heading("Connections");
  table
      .Row("handshake-timeout", care.handshake_timeout,
           "How long a client may take to begin, with TLS or with HTTP/2")
      ->transform(Seconds(0.001, kMost));
  table
      .Row("keepalive-time", care.keepalive_time,
           "How long a connection may be silent before the client is pinged")
      ->transform(Seconds(1, kMost));
  table
      .Row("keepalive-timeout", care.keepalive_timeout,
           "How long it has to answer that, or it is closed")
      ->transform(Seconds(0.001, kMost));
  table
      .Row("min-ping-interval", care.min_ping_interval,
           "Clients that ping more often than this are sent away")
      ->transform(Seconds(0, kMost));
  table
      .Row("max-connection-idle", care.max_connection_idle,
           "How long a connection may be without a call; 0 for ever")
      ->transform(Seconds(0, kMost));
  table
      .Row("max-connection-age", care.max_connection_age,
           "How long a connection may begin calls, give or take a tenth; 0 for "
           "ever. Clients then connect anew, perhaps to a newer server")
      ->transform(Seconds(0, kMost));
  table
      .Row("max-connection-age-grace", care.max_connection_age_grace,
           "How long its calls may run on after that")
      ->transform(Seconds(0, kMost));
  table
      .Row("max-concurrent-streams", care.max_concurrent_streams,
           "The most calls that a connection may have open")
      ->transform(Whole(1, 1 << 20));
  table
      .Row("max-metadata-bytes", care.max_metadata_bytes,
           "The most that a call's header fields may take, 32 bytes each "
           "beside their text")
      ->transform(Whole(1024, 1 << 20));
}

void AddDrain(ConfigTable& table, ServerConfig& config) {
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

void AddLogging(ConfigTable& table, ServerConfig& config) {
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
      ->check(Share());
  table
      .Row("slow-request", config.slow_request_seconds,
           "Requests that took longer have a line in the log, as a warning, in "
           "seconds or with a unit; 0 for none")
      ->transform(Seconds(0, 86400));
}

// The settings as lines of a config file, without the sub-commands'.
std::string Settings(const CLI::App& app) {
  std::istringstream all(app.config_to_str(/*default_also=*/true));
  std::string lines;
  for (std::string line; std::getline(all, line);) {
    const std::string key = line.substr(0, line.find('='));
    // CLI11's text for a list that is empty is none that it reads.
    const bool empty = line == key + "=\"[]\"";
    if (key.find('.') == std::string::npos && !empty) lines += line + "\n";
  }
  return lines;
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
      throw CLI::ValidationError(name, "the variable sets nothing");
    }
  }
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
  AddHealthcheckTlsFlags(*command, config);
  return command;
}

CLI::App* AddHashToken(CLI::App& app, std::string& name) {
  CLI::App* command = app.add_subcommand(
      "hash-token",
      "Reads a token from stdin and prints its line of --auth-tokens-file");
  command->configurable(false);
  command->add_option("name", name, "Who has the token, for limits and logs")
      ->required();
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
  ConfigTable table(app);
  AddListening(table, result.server);
  AddSecurityFlags(table, result.server.security);
  AddWork(table, result.server);
  AddLimits(table, result.server);
  AddConnections(table, result.server.connections);
  AddDrain(table, result.server);
  AddLogging(table, result.server);
  const CLI::App* healthcheck = AddHealthcheck(app, result.healthcheck);
  const CLI::App* hash_token = AddHashToken(app, result.token_name);

  bool check = false;
  app.add_flag("--check-config", check,
               "Say whether a server could start with these settings, print "
               "them and exit")
      ->configurable(false);
  try {
    app.parse(argc, argv);
    CheckEnvironment(app);
  } catch (const CLI::ParseError& error) {
    result.action = CommandLine::Action::kExit;
    const bool ok = app.exit(error, std::cout, std::cerr) == 0;
    result.exit_code = ok                      ? 0
                       : healthcheck->parsed() ? kHealthcheckUsageError
                                               : kUsageError;
    return result;
  }
  result.settings = Settings(app);
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
