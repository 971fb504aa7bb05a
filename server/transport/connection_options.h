// Options for client connections: keepalive, timeouts and limits.
#pragma once

namespace grpc {
class ServerBuilder;
}

namespace topk {

/// Options for a server's connections. Each is set by the flag of the same
/// name. Durations are in seconds.
struct ConnectionOptions {
  double keepalive_time = 60;
  /// Clients that stop reading do not answer pings and are disconnected too.
  double keepalive_timeout = 20;
  /// A client that pings more often is disconnected at the third violation.
  /// Some clients ping every 10 s, so gRPC's default of 5 minutes is too long.
  double min_ping_interval = 10;
  double max_connection_idle = 600;
  double max_connection_age = 1800;
  /// Time for open calls to finish after max_connection_age. No other limit
  /// ends a call whose body arrives one byte at a time.
  double max_connection_age_grace = 600;
  int max_connections = 0;
  /// More than a large machine has processes, and few enough that one client
  /// cannot use up the memory or the file descriptors.
  int max_connections_per_client = 1024;
  /// A connection beyond this limit replaces the oldest one, so that clients
  /// that keep connections open cannot lock out others. 0 = no limit. No flag
  /// sets this.
  int max_replaced = 0;
  int max_concurrent_streams = 256;
  int max_metadata_bytes = 8192;
  double handshake_timeout = 10;
  /// Size of the kernel's send and receive buffers of a TCP connection. 0 = the
  /// kernel's default. No flag sets this.
  int socket_buffer_bytes = 0;
  /// Whether other processes of this user may listen on the same TCP ports. Set
  /// by --instances.
  bool shares_ports = false;
};

/// Applies `options` to `builder`. The server receives compressed messages as
/// they were sent, because gRPC would decompress them without a limit on their
/// size; see server/calls/compression.h.
void ApplyConnectionOptions(const ConnectionOptions& options,
                            grpc::ServerBuilder& builder);

/// Returns strict limits for connections from scrapers, health probes and admin
/// tools.
ConnectionOptions SideConnectionOptions();

/// Applies SideConnectionOptions(), and limits memory and threads, so that
/// these connections cannot starve the main listeners. Rejects compressed
/// messages.
void ApplySideConnectionOptions(grpc::ServerBuilder& builder);

}  // namespace topk
