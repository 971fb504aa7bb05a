// How the server treats connections: what it expects of clients it knows
// nothing of, and when it lets them go.
#pragma once

#include <cstdint>

namespace grpc {
class ServerBuilder;
}

namespace topk {

/// Settings of all connections. Durations are in seconds.
struct ConnectionOptions {
  /// After so long without a frame the client is asked for a sign of life...
  double keepalive_time = 60;
  /// ...and has so long to give it, or else the connection is closed: a client
  /// that reads nothing gives none.
  double keepalive_timeout = 20;
  /// Who sends pings closer together, more than twice, is sent away. gRPC's own
  /// 5 minutes would send off clients whose keepalive is 10 s.
  double min_ping_interval = 10;
  /// A connection without a call is closed after this; 0 = never.
  double max_connection_idle = 600;
  /// A connection takes no new calls after this, give or take a tenth, so that
  /// clients spread over servers that came later; 0 = never...
  double max_connection_age = 1800;
  /// ...and is closed, whatever its calls do, after so much more: nothing else
  /// ends a body that comes a byte at a time.
  double max_connection_age_grace = 600;
  /// Open calls of one connection.
  int max_concurrent_streams = 256;
  /// A call's header fields, in bytes as HPACK counts them.
  int max_metadata_bytes = 8192;
  /// A connection that has not begun as HTTP/2 (or TLS) by then is closed.
  double handshake_timeout = 10;
};

/// Has the builder's servers treat their connections so. They take no
/// compressed messages either: gRPC 1.51 unpacks whatever a message of the
/// allowed size expands to, a thousand times as much, before it looks at the
/// size again.
void ApplyConnectionOptions(const ConnectionOptions& options,
                            grpc::ServerBuilder& builder);

/// Has the builder's servers treat their connections as those of probes and
/// operators' tools, which last for a moment: these listeners cannot take file
/// descriptors, memory or threads from the main ones for long.
void ApplySideConnectionOptions(grpc::ServerBuilder& builder);

/// Returns the settings that ApplySideConnectionOptions() applies.
ConnectionOptions SideConnectionOptions();

}  // namespace topk
