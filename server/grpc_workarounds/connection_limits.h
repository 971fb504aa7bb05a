// Limits on open connections. gRPC 1.51 has none, and 1.83 can only reject new
// connections beyond a total (GRPC_ARG_MAX_ALLOWED_INCOMING_CONNECTIONS).
// Test: tests/system/hostile/connection_limits_test.py.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "server/transport/connection_options.h"

namespace topk {

/// Limits the number of open connections of an acceptor. Not thread-safe.
class ConnectionLimits {
 public:
  explicit ConnectionLimits(const ConnectionOptions& options)
      : options_(options) {}

  /// Registers a newly accepted connection, disconnects the oldest one if
  /// necessary, and returns "". If the connection must be rejected, returns the
  /// reason instead, and the caller must close `fd`. The limit per client does
  /// not apply if `client` is "".
  /// Closed connections may count for another 100 ms, or 50 us for each open
  /// connection if that is more.
  std::string Admit(int fd, const std::string& client);

  void DisconnectAll() const;

 private:
  struct Connection {
    int fd;
    ino_t inode;
    std::string client;
    bool disconnected = false;
  };

  // Removes closed connections. gRPC does not report that it has closed one.
  void Sweep();

  const ConnectionOptions options_;
  std::vector<Connection> open_;                 // oldest first
  std::chrono::steady_clock::time_point swept_;  // the last sweep
};

}  // namespace topk
