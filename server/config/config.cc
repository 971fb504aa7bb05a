#include "server/config/config.h"

#include <grpcpp/version_info.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <regex>
#include <string_view>
#include <utility>

#include "core/backends/registry.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/common/target.h"
#include "core/common/usage_text.h"
#include "server/config/otel_variables.h"
#include "server/security/client_names.h"

namespace topk {
namespace {

constexpr int kUsageError = 2;

std::string Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

[[noreturn]] void FailEmpty(const std::string& source) {
  throw CLI::ValidationError(source, "the value is empty");
}

// Checks host:port.
std::string CheckHostPort(const std::string& address) {
  if (IsHostPort(address, 0)) return "";
  return StrCat(Quote(address), " is not host:port with a port of 0 .. 65535");
}

// Checks a listening address, and rewrites unix:///path as unix:/path.
std::string CheckListen(std::string& address) {
  constexpr std::string_view kUnix = "unix:";
  constexpr size_t kMaxUnixPath = 107;  // sun_path without the NUL
  if (!address.starts_with(kUnix)) return CheckHostPort(address);
  std::string path = address.substr(kUnix.size());
  if (path.starts_with("//")) {
    path.erase(0, 2);
    if (!path.starts_with('/')) {
      return StrCat(Quote(address), ": unix:// needs an absolute path, e.g. ",
                    "unix:///run/topkd.sock");
    }
  }
  if (path.empty()) return "unix: needs a path";
  if (path.find('%') != std::string::npos) {
    return StrCat(Quote(address),
                  ": the path of a unix socket must not contain ",
                  "%, which gRPC uses as an escape character");
  }
  if (path.size() > kMaxUnixPath) {
    return StrCat("the path of a unix socket has ", path.size(),
                  " bytes; it must have at most ", kMaxUnixPath);
  }
  address = StrCat(kUnix, path);
  return "";
}

// Accepts 0 and numbers in [least, most]. Rewrites numbers in shortest form.
CLI::Validator Number(double least, double most, const char* type,
                      const char* rule) {
  const auto check = [least, most, rule](std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber(text);
    if (!number || (*number != 0 && !(*number >= least && *number <= most))) {
      return StrCat(Quote(text), " is not ", rule);
    }
    text = NumberText(*number);
    return "";
  };
  return {check, type};
}

// Returns the number of bytes in a unit, e.g. 1024 for "KiB", or 0 if the unit
// is unknown. Ignores case. "K" and "KB" are 1024 too.
int64_t UnitBytes(std::string_view text) {
  std::string unit = InLowerCase(text);
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtpe";
  const size_t prefix = kPrefixes.find(unit.front());
  unit.erase(0, 1);
  if (prefix == std::string_view::npos ||
      !(unit.empty() || unit == "b" || unit == "ib")) {
    return 0;
  }
  return int64_t{1024} << (10 * prefix);
}

// Accepts file permissions.
CLI::Validator OctalMode() {
  const auto check = [](const std::string& text) -> std::string {
    unsigned mode = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, mode, 8);
    if (error == std::errc() && rest == end && mode <= 0777) return "";
    return Quote(text) + " is not a mode of 0 .. 0777 in octal";
  };
  return {check, "MODE"};
}

std::string CheckObjectPrefix(const std::string& prefix) {
  if (prefix.rfind('/') == 0) return "";
  return Quote(prefix) + " must begin with a slash and have no other slash";
}

// Accepts a duration in seconds or with a unit, and converts it to seconds.
CLI::Validator Seconds(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    // Shorter durations could be rounded to zero, which may mean "no limit".
    constexpr double kShortest = 1e-6;
    const size_t digits = text.find_last_of("0123456789.") + 1;
    const std::string_view unit = std::string_view(text).substr(digits);
    const double factor = unit.empty() || unit == "s" ? 1
                          : unit == "ms"              ? 1e-3
                          : unit == "m"               ? 60
                                                      : std::nan("");
    const double seconds = ParseNumber(std::string_view(text).substr(0, digits))
                               .value_or(std::nan("")) *
                           factor;
    // The condition is negated so that NaN is rejected.
    if (!(seconds >= least && seconds <= most) ||
        (seconds > 0 && seconds < kShortest)) {
      return StrCat(Quote(text),
                    " is not a duration such as 25, 1.5s, 500ms or ",
                    "1m, from ", NumberText(least), " s to ", NumberText(most),
                    " s", least > 0 ? "" : ", and 0 or at least 0.001ms");
    }
    text = NumberText(seconds);
    return "";
  };
  return {check, "DURATION"};
}

// Accepts a number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB.
// Converts the value to an integer, rounded up. `or_zero` accepts 0 too.
CLI::Validator Bytes(int64_t least, int64_t most, bool or_zero = false) {
  const auto check = [=](std::string& text) -> std::string {
    // Use a long double, because it represents every int64_t exactly.
    long double bytes = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] =
        std::from_chars(text.data(), end, bytes, std::chars_format::fixed);
    std::string unit(rest, end);
    unit.erase(0, unit.find_first_not_of(' '));
    const int64_t factor = UnitBytes(unit);
    bytes *= static_cast<long double>(factor);
    // The condition is negated so that NaN is rejected.
    const bool is_in_range = bytes >= static_cast<long double>(least) &&
                             bytes <= static_cast<long double>(most);
    if (error != std::errc() || factor == 0 ||
        !(is_in_range || (or_zero && bytes == 0))) {
      return StrCat(Quote(text),
                    " is not a number of bytes such as 65536, 64KiB ",
                    "or 1.5GiB in the range of ", least, " to ", most,
                    or_zero ? ", or 0" : "");
    }
    // Round up, so that a positive number never becomes 0.
    text = StrCat(static_cast<int64_t>(std::ceil(bytes)));
    return "";
  };
  return {check, "BYTES"};
}

// Accepts an integer, and rewrites it in canonical form; see CheckWhole().
CLI::Validator Whole(int64_t least, int64_t most) {
  return {[least, most](std::string& text) {
            return CheckWhole(text, least, most);
          },
          StrCat("INT in [", least, " - ", most, "]")};
}

// Defines settings. Each row becomes a flag --like-this and an environment
// variable TOPKD_LIKE_THIS.
class ConfigTable {
 public:
  explicit ConfigTable(CLI::App& app) : app_(app) {}

  // Sets the --help heading for the rows added after this call.
  void Heading(std::string heading) { heading_ = std::move(heading); }

  // Adds a flag that takes a value, or several values if `value` is a vector.
  template <class Value>
  CLI::Option* Row(const std::string& name, Value& value,
                   const std::string& help) {
    return Finish(
        name, app_.add_option("--" + name, value, help)->capture_default_str());
  }
  template <class Value>
  CLI::Option* Row(const std::string& name, Value& value,
                   CLI::Validator validator, const std::string& help) {
    return Row(name, value, help)->transform(std::move(validator));
  }
  // Adds a flag that takes no value and sets `value` to true.
  CLI::Option* Switch(const std::string& name, bool& value,
                      const std::string& help) {
    CLI::Option* const added = app_.add_flag("--" + name, value, help);
    return Finish(name, added->check(CLI::Validator(CheckSwitch, "")));
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
  std::string heading_ = "Options";
};

void AddListening(ConfigTable& table, ServerConfig& config,
                  std::string& unix_socket_mode) {
  table.Heading("Listening");
  table
      .Row("listen", config.listen, {CheckListen, "ADDRESS"},
           "Addresses of the gRPC service: host:port (port 0 picks a free "
           "port) or unix:path. Repeat the flag or separate addresses with "
           "commas. The default accepts connections from this machine only; "
           "0.0.0.0:50051 accepts them from everywhere: secure it with "
           "--tls-cert and --auth-tokens-file")
      ->delimiter(',')
      ->default_str(config.listen.front());
  table.Row("unix-socket-mode", unix_socket_mode, OctalMode(),
            "File mode of unix: sockets. Clients need write permission: 0660 "
            "lets the group connect, 0666 everyone");
  table.Row("metrics-listen", config.metrics_listen, {CheckHostPort, "ADDRESS"},
            "Address that serves Prometheus metrics under the path /metrics. "
            "Disabled by default");
  table.Row("health-listen", config.health_listen, {CheckHostPort, "ADDRESS"},
            "Address of a plaintext port that serves only health checks, for "
            "probes without a certificate. Disabled by default");
  table.Row("admin-listen", config.admin_listen, {CheckHostPort, "ADDRESS"},
            "Address of a plaintext port for administrators, with channelz and "
            "reflection. Keep it private: channelz shows all connections and "
            "calls. Disabled by default");
  table.Row("ready-file", config.ready_file,
            "File to which the server writes its addresses as JSON once it "
            "accepts calls. Removed at exit, unless a second SIGTERM or SIGINT "
            "ends the server");
}

void AddSecurity(ConfigTable& table, SecurityConfig& config) {
  // Rates between 0 and 1e-6 must be mistakes.
  const CLI::Validator rate =
      Number(1e-6, 1e15, "RATE", "a rate of 0 or 1e-6 .. 1e15 per second");
  table.Heading("Security");
  table.Row("tls-cert", config.tls_cert,
            "PEM file with the server's certificate and its intermediate "
            "certificates. Enables TLS 1.2 and 1.3 on all --listen addresses "
            "except unix: sockets. The server reloads this file and those of "
            "the other TLS flags when they change; invalid files are logged "
            "and ignored");
  table.Row(
      "tls-key", config.tls_key,
      "PEM file with the certificate's private key, without a passphrase");
  table.Row("tls-client-ca", config.tls_client_ca,
            "PEM file with the authorities that sign client certificates. "
            "Enables mutual TLS: each client needs a certificate");
  table.Row("tls-client-crl", config.tls_client_crl,
            "PEM file with a certificate revocation list of each authority in "
            "--tls-client-ca. Calls are rejected, even on open connections, if "
            "their certificate is revoked or its authority has no current "
            "list");
  table
      .Row("tls-allowed-san", config.tls_allowed_san,
           {CheckAllowedName, "NAME"},
           "Subject alternative names (DNS name, URI, e-mail or IP address); a "
           "client certificate must contain at least one of them. A leading *. "
           "matches any first label of a DNS name. Repeat the flag or separate "
           "names with commas. By default, every verified certificate is "
           "accepted")
      ->delimiter(',')
      ->default_str("");
  table.Row("auth-tokens-file", config.auth_tokens_file,
            "File with hashes of the accepted tokens; each call except health "
            "checks must then send a token in the header \"authorization: "
            "Bearer TOKEN\". Each line is name:SHA-256 as printed by topkd "
            "hash-token, or a comment after #. The server reloads the file "
            "when it changes; an invalid file is logged and ignored");
  table.Row("client-ipv6-prefix", config.client_ipv6_prefix, Whole(1, 128),
            "Number of leading bits of an IPv6 address that identify a client "
            "that has neither a token nor a certificate. A host commonly owns "
            "a whole /64 network");
  table.Row("client-requests-per-second", config.client_requests_per_second,
            rate,
            "Max rate of requests per client; 0 for no limit. Bursts of up to "
            "one second's worth of requests are accepted. A client is "
            "identified by its token, else its certificate, else its address");
  table.Row("client-bytes-per-second", config.client_bytes_per_second, rate,
            "Max rate of request bytes per client; 0 for no limit. Bursts of "
            "up to one second's worth of bytes are accepted. A larger request "
            "is accepted only if the client sent nothing for a second. The "
            "client's next requests then wait longer. The server reads the "
            "tensors of StreamTopK calls at this rate");
}

std::vector<std::string> BackendChoices() {
  std::vector<std::string> choices = BackendNames();
  choices.insert(choices.begin(), kAutoBackend);
  return choices;
}

void AddWork(ConfigTable& table, ServerConfig& config) {
  table.Heading("Work");
  table.Row("instances", config.instances, Whole(1, 256),
            "Number of servers on this machine that share the --listen ports, "
            "this one included. The kernel divides new connections among them. "
            "The defaults that depend on the CPUs and the memory are divided "
            "by this number. Start all of them as the same user, with the same "
            "value. "
            "Unix sockets and the ports of the other --...-listen flags cannot "
            "be shared");
  table.Row("threads", config.threads, Whole(0, 4096),
            "Number of compute threads; 0 uses all CPUs that the affinity mask "
            "and the cgroup quota grant, divided by --instances");
  table.Row("backend", config.backend, CLI::IsMember(BackendChoices()),
            "Compute backend; auto uses the faster one for each request. The "
            "backend cuda requires a build with TOPK_WITH_CUDA and a device; "
            "requests that CUDA does not support run on the CPU");
  table.Row("device-memory-bytes", config.device_memory_bytes,
            Bytes(0, std::numeric_limits<int64_t>::max()),
            "Max memory to use on each device; 0 uses half of the device's "
            "memory");
  table.Row("pollers", config.pollers, Whole(0, 4096),
            "Max number of threads that poll connections and compute small "
            "requests; 0 uses half the compute threads. One thread polls while "
            "that is enough. The others start to poll as the load grows");
  table.Switch("allow-shared-memory", config.allow_shared_memory,
               "Read tensors from POSIX shared memory and write results to it. "
               "Every client on this machine can then access all objects that "
               "this process can access and whose names start with "
               "--shared-memory-prefix; so can all clients of a proxy that "
               "calls over loopback or a Unix socket");
  table.Row("shared-memory-prefix", config.shared_memory_prefix,
            {CheckObjectPrefix, "PREFIX"},
            "Required prefix of the names of shared memory objects");
  table.Switch(
      "allow-cuda-memory", config.allow_cuda_memory,
      "Read tensors from GPU memory of other processes on this machine "
      "and write results to it. A client that frees such memory while "
      "a call uses it can make the device fail, and the CPU is then "
      "used until the server restarts");
}

void AddLimits(ConfigTable& table, ServerConfig& config) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  table.Heading("Limits of one request");
  table.Row("max-message-bytes", config.max_message_bytes,
            Bytes(16 << 20, std::numeric_limits<int32_t>::max()),
            "Max size of a request message, at least 16 MiB; larger tensors "
            "need StreamTopK. GetCapabilities reports "
            "--max-client-inflight-bytes if less");
  table.Row("max-elements", config.max_elements, Whole(1, kMax),
            "Max number of elements of a tensor");
  table.Row("max-selected-elements", config.max_selected_elements,
            Whole(1, config.max_selected_elements),
            "Max number of elements that a request selects: k times the number "
            "of slices");
  table.Row("max-rank", config.max_rank, Whole(1, 4096),
            "Max number of dimensions of a tensor");
  table.Row("max-output-bytes", config.max_output_bytes,
            Bytes(1, config.max_output_bytes),
            "Max combined size of the values and indices of a response");
  table.Heading("Limits of all requests together");
  table.Row("max-inflight-bytes", config.max_inflight_bytes, Bytes(0, kMax),
            "Max memory of all requests in flight; 0 uses a quarter of the "
            "memory of the machine or, if less, of the cgroup, after 96 MiB "
            "are subtracted. The limit includes responses and working memory");
  table.Row("max-inflight-calls", config.max_inflight_calls, Whole(0, kMax),
            "Max number of calls in flight, open streams included; 0 uses one "
            "per 512 KiB of memory, at most 4096");
  table.Row("max-client-inflight-bytes", config.max_client_inflight_bytes,
            Bytes(0, kMax),
            "Max memory of one client's requests in flight; 0 uses half of "
            "--max-inflight-bytes. A client is identified by its token, else "
            "its certificate, else its address");
  table.Row("max-client-inflight-calls", config.max_client_inflight_calls,
            Whole(0, kMax),
            "Max number of one client's calls in flight; 0 uses half of "
            "--max-inflight-calls");
  table.Row("max-receive-memory", config.max_receive_memory,
            Bytes(1 << 20, kMax, /*or_zero=*/true),
            "Max memory that gRPC uses for messages that are arriving or "
            "queued; 0 uses 60% of the memory of the machine or, if less, of "
            "the cgroup, after 96 MiB are subtracted. Beyond the limit, gRPC "
            "closes calls without a status. Messages in tiny frames can use 6 "
            "times as much: see SECURITY.md");
}

void AddConnections(ConfigTable& table, ConnectionOptions& options) {
  // gRPC stores milliseconds in a 32-bit integer, which can hold 24 days.
  constexpr double kMax = 2000000;
  table.Heading("Connections");
  table.Row("handshake-timeout", options.handshake_timeout,
            Seconds(0.001, kMax),
            "Max time for the TLS handshake and the first HTTP/2 frames of a "
            "connection");
  table.Row("keepalive-time", options.keepalive_time, Seconds(1, kMax),
            "Idle time after which the server pings a client");
  table.Row("keepalive-timeout", options.keepalive_timeout,
            Seconds(0.001, kMax),
            "Max time to wait for the response to a keepalive ping before the "
            "connection is closed");
  table.Row("min-ping-interval", options.min_ping_interval, Seconds(0, kMax),
            "Min interval between a client's pings. Clients that ping more "
            "often are disconnected");
  table.Row("max-connection-idle", options.max_connection_idle,
            Seconds(0, kMax),
            "Max time that a connection stays open without calls; 0 for no "
            "limit");
  table.Row("max-connection-age", options.max_connection_age, Seconds(0, kMax),
            "Age at which a connection stops accepting calls, with 10% "
            "jitter; 0 for no limit. The client then reconnects, possibly to "
            "a newer server");
  table.Row("max-connection-age-grace", options.max_connection_age_grace,
            Seconds(0, kMax),
            "Max time for calls to finish on a connection that has reached "
            "--max-connection-age");
  table.Row("max-connections", options.max_connections, Whole(0, 1 << 20),
            "Max number of open connections; 0 for no limit except that of "
            "file descriptors. Connections beyond the limit are closed at "
            "once");
  table.Row("max-connections-per-client", options.max_connections_per_client,
            Whole(0, 1 << 20),
            "Max number of open connections per client address; 0 for no "
            "limit, e.g. behind a proxy, whose clients share its address. IPv6 "
            "addresses whose first --client-ipv6-prefix bits are equal count "
            "as one");
  table.Row("max-concurrent-streams", options.max_concurrent_streams,
            Whole(1, 1 << 20), "Max number of calls in flight per connection");
  table.Row("max-metadata-bytes", options.max_metadata_bytes,
            Whole(1024, 1 << 20),
            "Max size of a call's metadata in bytes. Each field counts as its "
            "length plus 32 bytes");
}

void AddDrain(ConfigTable& table, ServerConfig& config) {
  table.Heading("Draining");
  table.Row("drain-delay", config.drain_delay_seconds, Seconds(0, 3600),
            "Time after SIGTERM during which the server still accepts calls "
            "but reports NOT_SERVING, so that load balancers stop sending "
            "traffic");
  table.Row(
      "drain-timeout", config.drain_timeout_seconds, Seconds(0, 86400),
      "Max time for calls in flight to finish after --drain-delay. Keep "
      "the sum of both below the grace period of the process manager (30 s "
      "in Kubernetes)");
}

void AddLogging(ConfigTable& table, ServerConfig& config) {
  table.Heading("Logging");
  table.Row("log-level", config.log_level,
            CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}),
            "Lowest level that is logged");
  table.Row("log-format", config.log_format, CLI::IsMember({"text", "json"}),
            "Format of log lines");
  table.Row("access-log-sample", config.access_log_sample,
            Number(0, 1, "FRACTION", "a fraction from 0 to 1"),
            "Fraction of successful requests to log. If it is above 0, all "
            "requests that the caller traces are logged too. Failed requests "
            "are always logged, at most 100 per second");
  table.Row("slow-request", config.slow_request_seconds, Seconds(0, 86400),
            "Duration above which a request is logged as a warning; 0 to "
            "disable");
}

void AddTraces(ConfigTable& table, ServerConfig& config) {
  table.Heading("Traces");
  table.Row("otlp-endpoint", config.traces.endpoint, {CheckCollector, "URL"},
            "URL of an OpenTelemetry collector that receives spans: "
            "http://host:port or https://host:port. Defaults to the variables "
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and "
            "OTEL_EXPORTER_OTLP_ENDPOINT. Other OpenTelemetry variables choose "
            "the sampler and describe the service");
}

// Sets the options that no flag has set from environment variables. Throws if a
// value is empty: an unset shell variable must not disable TLS, for example.
// CLI11 2.4 cannot read the variables, because it ignores invalid values.
void ApplyVariables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->count() > 0) {
      if (option->results() == CLI::results_t{""}) {
        FailEmpty(option->get_name());
      }
      continue;
    }
    const std::string& variable = option->get_envname();
    const char* value =
        variable.empty() ? nullptr : std::getenv(variable.c_str());
    if (value == nullptr) continue;
    if (*value != '\0') option->add_result(value);
    if (option->count() == 0) FailEmpty(variable);  // "", or "," for a list
    option->run_callback();
  }
}

// Returns the effective settings as NAME=VALUE lines, optionally without those
// that have their default. Omits empty values.
std::string SettingsText(const CLI::App& app, bool with_defaults) {
  std::string lines;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty()) continue;
    if (option->count() == 0 && !with_defaults) continue;
    std::string value = option->get_default_str();
    if (option->get_expected_min() == 0) {
      value = option->count() > 0 && option->as<bool>() ? "true" : "false";
    } else if (option->count() > 0) {
      value = CLI::detail::join(option->reduced_results(), ",");
    }
    if (EscapeControls(value) != value) {
      throw CLI::ValidationError(
          option->get_name(),
          Quote(value) + " has control characters or is not UTF-8");
    }
    if (!value.empty())
      lines += StrCat(option->get_envname(), "=", value, "\n");
  }
  return lines;
}

// Throws if a TOPKD_... variable belongs to no setting, to catch typos. Ignores
// the variables that Kubernetes sets for a service named topkd.
void CheckEnvironment(const CLI::App& app) {
  static const std::regex of_kubernetes(
      "_SERVICE_(HOST|PORT)|_PORT_[0-9]{1,5}_[A-Z]");
  const std::vector<const CLI::Option*> options = app.get_options();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool is_url =
        name.ends_with("_PORT") && text.find("://") != std::string::npos;
    if (name.starts_with("TOPKD_") && !is_url &&
        !std::regex_search(name, of_kubernetes) &&
        std::ranges::find(options, name, &CLI::Option::get_envname) ==
            options.end()) {
      throw CLI::ValidationError(Quote(name), "no setting has this variable");
    }
  }
}

}  // namespace

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app("topkd serves TopK of ONNX, OpenVINO and DirectML over gRPC",
               "topkd");
  app.set_version_flag(
      "--version", "topkd " TOPK_VERSION " (gRPC " GRPC_CPP_VERSION_STRING ")");
  const auto find = [&, argc, argv](const std::string& flag) {
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (option == nullptr || IsArgument(argc, argv, flag)) return flag;
    const std::string& variable = option->get_envname();
    return Environment(variable).empty() ? flag : variable;
  };
  app.failure_message([find](const CLI::App* used, const CLI::Error& error) {
    const std::vector<std::string> unknown = used->remaining(/*recurse=*/true);
    const std::string text = unknown.empty()
                                 ? UsageText(error.what(), find)
                                 : "unknown argument " + Quote(unknown.front());
    return StrCat("topkd: ", text, "\nRun with --help for the settings.\n");
  });
  app.footer(
      "Flags take precedence over environment variables (TOPKD_THREADS for "
      "--threads). Sizes may have a unit: KiB, MiB or GiB; KB, MB and GB are "
      "powers of 1024 too. SIGTERM drains the server: calls in flight finish. "
      "A second SIGTERM at least 1 s later ends the process at once. Exit "
      "status: 0 after a drain, 1 on failure, 2 for invalid settings.");
  ConfigTable table(app);
  std::string unix_socket_mode = "0600";
  AddListening(table, result.server, unix_socket_mode);
  AddSecurity(table, result.server.security);
  AddWork(table, result.server);
  AddLimits(table, result.server);
  AddConnections(table, result.server.connections);
  AddDrain(table, result.server);
  AddLogging(table, result.server);
  AddTraces(table, result.server);
  CLI::App* hash_token = app.add_subcommand(
      "hash-token",
      "Reads a token from stdin and prints its line for --auth-tokens-file");
  hash_token
      ->add_option("name", result.token_name,
                   "Name of the token's owner, for limits and logs")
      ->required();
  // hash-token needs no settings, so ignore the variables.
  hash_token->preparse_callback([&app](size_t) {
    for (CLI::Option* option : app.get_options()) option->envname("");
  });
  bool check = false;
  app.add_flag("--check-config", check,
               "Validate the settings, print those that are set as environment "
               "variables, and exit without starting the server")
      ->check(CLI::Validator(CheckSwitch, ""));
  try {
    const std::string empty = EmptyFlag(argc, argv);
    if (app.get_option_no_throw(empty) != nullptr) FailEmpty(empty);
    app.parse(argc, argv);
    if (hash_token->parsed()) {
      result.action = CommandLine::Action::kHashToken;
      return result;
    }
    CheckEnvironment(app);
    ApplyVariables(app);
    result.settings = SettingsText(app, /*with_defaults=*/!check);
  } catch (const CLI::ParseError& error) {
    result.action = CommandLine::Action::kExit;
    const bool ok = app.exit(error, std::cout, std::cerr) == 0;
    result.exit_code = ok ? 0 : kUsageError;
    return result;
  }
  result.server.unix_socket_mode =
      static_cast<unsigned>(std::stoul(unix_socket_mode, nullptr, 8));
  result.server.traces =
      ReadTraceConfig(result.server.traces.endpoint, Environment);
  if (check) result.action = CommandLine::Action::kCheckConfig;
  return result;
}

}  // namespace topk
