// What a server can be told: flags, environment and config file, in that order
// of precedence.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/security/security_config.h"
#include "server/transport/connection_options.h"

namespace topk {

/// The settings of one server process. Each has a flag --like-this and a
/// variable TOPKD_LIKE_THIS of its name.
struct ServerConfig {
  /// Where to serve: host:port (port 0 = any free one) or unix:path. This
  /// machine alone by default: neither TLS nor tokens are asked for.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  /// Who may connect to unix: sockets, as chmod has it: those who may write.
  unsigned unix_socket_mode = 0600;
  /// Whether an xDS control plane says when and how the addresses are served.
  bool xds = false;
  /// Where to serve Prometheus metrics over HTTP: host:port over IPv4, which
  /// is what the HTTP library has; "" = nowhere.
  std::string metrics_listen;
  /// Where to serve health checks alone, in plain text; "" = nowhere else.
  std::string health_listen;
  /// Who may call, and how much.
  SecurityConfig security;
  /// Where to serve channelz and reflection over gRPC, in plain text, for
  /// operators: host:port; "" = nowhere.
  std::string admin_listen;
  /// Threads that compute; 0 = the processors this process may use.
  int threads = 0;
  /// See BackendOptions::choice.
  std::string backend = "auto";
  /// What of each device's memory may be taken, in bytes; 0 = half of it.
  int64_t device_memory_bytes = 0;
  /// Threads that wait for events and do small work; 0 = half of those that
  /// compute.
  int pollers = 0;
  /// The largest request message, in bytes.
  int64_t max_message_bytes = int64_t{64} << 20;
  /// The most elements a tensor may have.
  int64_t max_elements = int64_t{1} << 34;
  /// The most elements an answer may have: k for each slice.
  int64_t max_selected_elements = std::numeric_limits<int64_t>::max();
  /// The most dimensions a tensor may have.
  int64_t max_rank = 64;
  /// The largest answer, in bytes.
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  /// Whether tensors and answers may lie in POSIX shared memory, in objects
  /// whose names begin with the prefix: a slash, and no other one.
  bool allow_shared_memory = false;
  std::string shared_memory_prefix = "/topk";
  /// What may be under way at once: see AdmissionLimits. 0 bytes = a quarter of
  /// the memory; 0 of a client = half of the server's.
  int64_t max_inflight_bytes = 0;
  int64_t max_inflight_calls = 4096;
  int64_t max_client_inflight_bytes = 0;
  int64_t max_client_inflight_calls = 0;
  /// What gRPC may take for what it receives; 0 = 60 % of the memory.
  int64_t max_receive_memory = 0;
  /// What is expected of connections; its flags have its members' names.
  ConnectionOptions connections;
  /// After SIGTERM: how long to serve on, then how long calls may run on, in
  /// seconds.
  double drain_delay_seconds = 0;
  double drain_timeout_seconds = 25;
  /// Where to write the bound addresses, as JSON, when serving; "" = nowhere.
  /// A file that a killed server left there is removed at the start.
  std::string ready_file;
  /// trace, debug, info, warn, error or off.
  std::string log_level = "info";
  /// text or json.
  std::string log_format = "text";
  /// The share of OK requests that are logged, 0 .. 1.
  double access_log_sample = 0;
  /// Requests that took longer are logged as slow; 0 = none.
  double slow_request_seconds = 0;
};

/// What `topkd healthcheck` is told.
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

/// What a command line asks for.
struct CommandLine {
  enum class Action { kServe, kCheckConfig, kHealthcheck, kHashToken, kExit };
  Action action = Action::kServe;
  /// kExit: the status to exit with, after --help, --version or an error.
  int exit_code = 0;
  ServerConfig server;
  /// All settings as they are now, in the form of a config file. None of them
  /// is a secret: those are in files, whose names these are.
  std::string settings;
  HealthcheckConfig healthcheck;
  /// kHashToken: whose token it is.
  std::string token_name;
};

/// Reads the command line, the environment and the config file. Help goes to
/// stdout; an error to stderr, naming the flag and the value, with kExit and
/// status 2 (1 for the sub-command healthcheck, as grpc_health_probe has it).
CommandLine ReadCommandLine(int argc, const char* const* argv);

}  // namespace topk
