// Limits on open connections. gRPC 1.51 has no such limits, and the limits of
// gRPC 1.83 are internal and apply to the whole process. See acceptor.h.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace topk {

/// Returns this process's soft limit on file descriptors.
rlim_t DescriptorLimit();

/// Limits the number of open connections of an acceptor by disconnecting the
/// oldest connection when a new one exceeds the limit. Clients that keep
/// connections open therefore cannot lock out others. Not thread-safe.
class ConnectionReplacement {
 public:
  /// Returns the limit for the health and admin listeners: 64, or a sixteenth
  /// of the file descriptor limit if that is lower.
  static size_t Default();

  /// 0 = no limit.
  explicit ConnectionReplacement(size_t max) : max_(max) {}

  /// Registers a newly accepted connection, and disconnects the oldest one if
  /// necessary. Returns false if gRPC still has to close too many disconnected
  /// sockets. In this case, the caller must close `fd`.
  bool Admit(int fd);
  void DisconnectAll() const;

 private:
  struct Connection {
    int fd;
    ino_t inode;
    bool disconnected;
  };

  const size_t max_;
  size_t sweep_at_ = 0;           // size of `open_` that triggers a sweep
  std::vector<Connection> open_;  // oldest first
};

/// Limits the open connections of an acceptor, in total and per client address.
/// Connections beyond a limit are rejected rather than replacing open ones,
/// which may have calls in flight. Not thread-safe.
class ConnectionCounts {
 public:
  /// 0 = no limit. IPv6 addresses that share the first `ipv6_prefix` bits are
  /// one client. `max_per_client` does not apply to Unix sockets.
  ConnectionCounts(size_t max, size_t max_per_client, int ipv6_prefix)
      : max_(max), max_per_client_(max_per_client), ipv6_prefix_(ipv6_prefix) {}

  /// Registers a newly accepted connection and returns "". If a limit would be
  /// exceeded, returns its description instead, and the caller must close `fd`.
  std::string Admit(int fd, const sockaddr& peer);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    ino_t inode;
    std::string client;
  };
  struct Client {
    std::vector<int> fds;
    Clock::time_point last_sweep;
  };

  void Forget(int fd);
  void ForgetClosed(const std::vector<int>& fds);
  size_t CountOf(const std::string& client) const;

  const size_t max_;
  const size_t max_per_client_;
  const int ipv6_prefix_;
  // Keyed by descriptor. May contain closed connections, because gRPC does not
  // report that it has closed a connection.
  std::unordered_map<int, Connection> open_;
  std::unordered_map<std::string, Client> clients_;
  Clock::time_point last_sweep_;
};

}  // namespace topk
