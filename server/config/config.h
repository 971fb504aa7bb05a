// The server's configuration: flags, environment and config file, in that order
// of precedence.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/security/security_config.h"
#include "server/telemetry/trace_context.h"
#include "server/transport/connection_options.h"

namespace topk {

/// The settings of one server process. Each has a flag --like-this and an
/// environment variable TOPKD_LIKE_THIS.
struct ServerConfig {
  /// The addresses to serve on: host:port (port 0 = any free one) or unix:path.
  /// Loopback by default, because neither TLS nor tokens are required.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  /// The file mode of unix: sockets. Users with write permission may connect.
  unsigned unix_socket_mode = 0600;
  /// The address of the Prometheus metrics over HTTP: host:port, IPv4 only (a
  /// limit of the HTTP library); "" = off.
  std::string metrics_listen = {};
  /// The address of an additional listener for health checks only, without TLS;
  /// "" = off.
  std::string health_listen = {};
  /// Authentication, authorization and rate limits.
  SecurityConfig security = {};
  /// The address of channelz and reflection for operators, without TLS:
  /// host:port; "" = off.
  std::string admin_listen = {};
  /// Worker threads; 0 = the number of CPUs that this process may use.
  int threads = 0;
  /// See BackendOptions::choice.
  std::string backend = "auto";
  /// The maximum memory to use on each device, in bytes; 0 = half of it.
  int64_t device_memory_bytes = 0;
  /// Pollers: threads that wait for events and do small work; 0 = half the
  /// number of workers.
  int pollers = 0;
  /// The maximum size of a request message, in bytes.
  int64_t max_message_bytes = int64_t{64} << 20;
  /// The maximum number of elements of a tensor.
  int64_t max_elements = int64_t{1} << 34;
  /// The maximum number of elements of an output: k per slice.
  int64_t max_selected_elements = std::numeric_limits<uint32_t>::max();
  /// The maximum number of dimensions of a tensor.
  int64_t max_rank = 64;
  /// The maximum size of a response's outputs, in bytes.
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  /// Whether tensors may be in POSIX shared memory, in objects whose names
  /// begin with the prefix. The prefix contains one slash, at its start.
  bool allow_shared_memory = false;
  std::string shared_memory_prefix = "/topk";
  /// The limits of calls and bytes in flight, see AdmissionLimits. 0 bytes = a
  /// quarter of the memory; 0 for a client = half of the server's limit.
  int64_t max_inflight_bytes = 0;
  int64_t max_inflight_calls = 4096;
  int64_t max_client_inflight_bytes = 0;
  int64_t max_client_inflight_calls = 0;
  /// The maximum memory of gRPC's receive buffers, in bytes; 0 = 60 % of the
  /// memory.
  int64_t max_receive_memory = 0;
  /// Connection settings; the flags have the names of its members.
  ConnectionOptions connections = {};
  /// After SIGTERM: the time to keep serving, then the time that calls in
  /// flight have to finish, in seconds.
  double drain_delay_seconds = 0;
  double drain_timeout_seconds = 25;
  /// The file that receives the bound addresses, as JSON, once the server
  /// serves;
  /// "" = none. A file left by a killed server is removed at the start.
  std::string ready_file = {};
  /// trace, debug, info, warn, error or off.
  std::string log_level = "info";
  /// text or json.
  std::string log_format = "text";
  /// The fraction of OK requests that are logged, 0 .. 1.
  double access_log_sample = 0;
  /// Requests that take longer are logged as slow; 0 = off.
  double slow_request_seconds = 0;
  /// The export of traces.
  TraceConfig traces = {};
};

/// The flags of `topkd healthcheck`.
struct HealthcheckConfig {
  std::string target = "127.0.0.1:50051";
  std::string service;
  double timeout_seconds = 1;
  /// TLS, if one of them is set; see the flags of their names.
  bool tls = false;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_server_name;
};

/// The parsed command line.
struct CommandLine {
  enum class Action { kServe, kCheckConfig, kHealthcheck, kHashToken, kExit };
  Action action = Action::kServe;
  /// kExit: the status to exit with, after --help, --version or an error.
  int exit_code = 0;
  ServerConfig server;
  /// The effective settings in the form of a config file. They contain no
  /// secrets, only the names of the files that hold them.
  std::string settings;
  HealthcheckConfig healthcheck;
  /// kHashToken: the name of the token's owner.
  std::string token_name;
};

/// Reads the command line, the environment and the config file. Writes help to
/// stdout. Writes errors to stderr, naming the flag and the value, and returns
/// kExit with status 2 (1 for the sub-command healthcheck, like
/// grpc_health_probe).
CommandLine ReadCommandLine(int argc, const char* const* argv);

}  // namespace topk
