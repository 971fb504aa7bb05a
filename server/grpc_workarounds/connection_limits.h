// Limits on open connections. gRPC 1.51 has none, and 1.83 can only reject new
// connections beyond a total (GRPC_ARG_MAX_ALLOWED_INCOMING_CONNECTIONS).
// Test: tests/system/hostile/connection_limits_test.py.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace topk {

/// Returns this process's soft limit on file descriptors.
rlim_t DescriptorLimit();

/// Limits the number of open connections of an acceptor. Not thread-safe.
class ConnectionLimits {
 public:
  /// 0 = no limit.
  struct Limits {
    /// A connection beyond this limit replaces the oldest one. Clients that
    /// keep connections open therefore cannot lock out others.
    size_t max_replaced = 0;
    /// Connections beyond these limits are rejected rather than replacing open
    /// ones, which may have calls in flight.
    size_t max = 0;
    size_t max_per_client = 0;
  };

  /// Returns `max_replaced` for the health and admin listeners: 64, or a
  /// sixteenth of the file descriptor limit if that is lower.
  static size_t DefaultReplaced();

  explicit ConnectionLimits(const Limits& limits) : limits_(limits) {}

  /// Registers a newly accepted connection, disconnects the oldest one if
  /// necessary, and returns "". If the connection must be rejected, returns the
  /// reason instead, and the caller must close `fd`. `max_per_client` does not
  /// apply if `client` is "".
  /// Closed connections may count for another 100 ms.
  std::string Admit(int fd, const std::string& client);

  void DisconnectAll() const;

 private:
  struct Connection {
    int fd;
    ino_t inode;
    std::string client;
    bool disconnected = false;
  };

  // Returns the reason to reject a connection of this client, or "".
  std::string Refusal(const std::string& client) const;
  // Removes closed connections. gRPC does not report that it has closed one.
  void Sweep();

  const Limits limits_;
  std::vector<Connection> open_;                    // oldest first
  std::unordered_map<std::string, size_t> counts_;  // of open_, by client
  size_t sweep_at_ = 0;  // size of open_ that triggers a sweep
  std::chrono::steady_clock::time_point swept_;  // the last sweep
};

}  // namespace topk
