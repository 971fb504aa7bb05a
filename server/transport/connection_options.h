// Options of client connections: keepalive, timeouts and limits.
#pragma once

namespace grpc {
class ServerBuilder;
}

namespace topk {

/// Settings of all connections. Durations are in seconds.
struct ConnectionOptions {
  /// The time without a frame after which the server pings the client.
  double keepalive_time = 60;
  /// The time that the client has to answer a ping before the connection is
  /// closed. A client that stops reading does not answer.
  double keepalive_timeout = 20;
  /// The minimum interval between a client's pings. A client that violates it
  /// more than twice is disconnected. gRPC's default of 5 minutes would
  /// disconnect clients with a keepalive of 10 s.
  double min_ping_interval = 10;
  /// A connection without a call is closed after this; 0 = never.
  double max_connection_idle = 600;
  /// The age, with a jitter of 10 %, at which a connection receives a GOAWAY,
  /// so that clients spread over servers that were added later; 0 = never.
  double max_connection_age = 1800;
  /// The time after the GOAWAY at which the connection is closed with all of
  /// its calls. No other limit ends a body that arrives one byte at a time.
  double max_connection_age_grace = 600;
  /// Max number of open connections of the server, and from one client address;
  /// 0 = no limit.
  int max_connections = 0;
  int max_connections_per_client = 0;
  /// The maximum number of open calls of one connection.
  int max_concurrent_streams = 256;
  /// The maximum size of a call's header fields, in bytes as HPACK counts them.
  int max_metadata_bytes = 8192;
  /// The time by which a connection must have completed its HTTP/2 (or TLS)
  /// handshake.
  double handshake_timeout = 10;
};

/// Applies the options to the builder. Also disables compressed messages: gRPC
/// 1.51 decompresses a message of the allowed size, which can expand a thousand
/// times, before it checks the size again.
void ApplyConnectionOptions(const ConnectionOptions& options,
                            grpc::ServerBuilder& builder);

/// Applies options for the short connections of probes and operators' tools, so
/// that these listeners cannot take file descriptors, memory or threads from
/// the main ones for long.
void ApplySideConnectionOptions(grpc::ServerBuilder& builder);

/// Returns the settings that ApplySideConnectionOptions() applies.
ConnectionOptions SideConnectionOptions();

}  // namespace topk
