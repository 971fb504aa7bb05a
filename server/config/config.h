// The server's configuration, from flags and environment variables. Flags take
// precedence.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/security/authenticator.h"
#include "server/telemetry/trace_context.h"
#include "server/transport/connection_options.h"

namespace topk {

/// The settings of a server process. Each is set by the flag of the same name
/// (max_rank by --max-rank), unless noted otherwise. --help describes them.
struct ServerConfig {
  /// Loopback by default, because TLS and tokens are off by default.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  unsigned unix_socket_mode = 0600;
  std::string metrics_listen = {};
  std::string health_listen = {};
  std::string admin_listen = {};
  std::string ready_file = {};
  SecurityConfig security = {};
  int instances = 1;
  int threads = 0;
  std::string backend = "auto";
  int64_t device_memory_bytes = 0;
  int pollers = 0;
  bool allow_shared_memory = false;
  std::string shared_memory_prefix = "/topk";
  bool allow_cuda_memory = false;
  int64_t max_message_bytes = int64_t{64} << 20;
  int64_t max_elements = int64_t{1} << 34;
  /// max_selected_elements and max_output_bytes default to their upper limits.
  int64_t max_selected_elements = std::numeric_limits<uint32_t>::max();
  int64_t max_rank = 64;
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  int64_t max_inflight_bytes = 0;
  int64_t max_inflight_calls = 0;
  int64_t max_client_inflight_bytes = 0;
  int64_t max_client_inflight_calls = 0;
  int64_t max_receive_memory = 0;
  ConnectionOptions connections = {};
  /// Set by --drain-delay and --drain-timeout.
  double drain_delay_seconds = 0;
  double drain_timeout_seconds = 25;
  std::string log_level = "info";
  std::string log_format = "text";
  double access_log_sample = 0;
  /// Set by --slow-request.
  double slow_request_seconds = 0;
  /// Set by --otlp-endpoint and OpenTelemetry's environment variables.
  TraceConfig traces = {};
};

/// The parsed command line.
struct CommandLine {
  enum class Action { kServe, kCheckConfig, kHashToken, kExit };
  Action action = Action::kServe;
  /// For kExit: the exit status after --help, --version or an error.
  int exit_code = 0;
  ServerConfig server;
  /// The settings as environment variables, one NAME=VALUE per line. For
  /// kCheckConfig, those that are set, otherwise all. Contains no secrets, only
  /// the names of files that hold secrets.
  std::string settings;
  /// For kHashToken: the name of the token's owner.
  std::string token_name;
};

/// Reads the command line and the environment. Prints help to stdout. On an
/// error, names the flag or variable and the value on stderr, and returns kExit
/// with status 2.
CommandLine ReadCommandLine(int argc, const char* const* argv);

}  // namespace topk
