// Options of client connections: keepalive, timeouts and limits.
#pragma once

namespace grpc {
class ServerBuilder;
}

namespace topk {

/// The settings of a server's connections; each is set by the flag of its name.
/// Durations are in seconds.
struct ConnectionOptions {
  double keepalive_time = 60;
  /// A client that stops reading does not answer pings and is disconnected too.
  double keepalive_timeout = 20;
  /// A client that violates it more than twice is disconnected. gRPC's default
  /// of 5 minutes would disconnect clients with a keepalive of 10 s.
  double min_ping_interval = 10;
  double max_connection_idle = 600;
  double max_connection_age = 1800;
  /// No other limit ends a call whose body arrives one byte at a time.
  double max_connection_age_grace = 600;
  int max_connections = 0;
  int max_connections_per_client = 0;
  int max_concurrent_streams = 256;
  int max_metadata_bytes = 8192;
  double handshake_timeout = 10;
};

/// Applies the options to the builder. Also disables compressed messages: gRPC
/// 1.51 decompresses a message of the allowed size, which can expand a thousand
/// times, before it checks the size again.
void ApplyConnectionOptions(const ConnectionOptions& options,
                            grpc::ServerBuilder& builder);

/// Applies options for the short connections of probes and operators' tools, so
/// that they cannot take file descriptors, memory or threads from the main
/// listeners for long.
void ApplySideConnectionOptions(grpc::ServerBuilder& builder);

/// Returns the settings that ApplySideConnectionOptions() applies.
ConnectionOptions SideConnectionOptions();

}  // namespace topk
