// Limits of open connections. gRPC 1.51 does not support them, and the private
// ones of 1.83 apply to the whole process. See acceptor.h.
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

/// Returns this process's limit of file descriptors.
rlim_t DescriptorLimit();

/// Keeps the open connections of an acceptor and bounds their number. A
/// connection beyond the limit replaces the oldest one, which is disconnected,
/// so that clients that keep connections open do not lock out others. Not
/// thread-safe.
class ConnectionReplacement {
 public:
  /// Returns the limit for listeners other than the main ones: 64, or a
  /// sixteenth of all file descriptors if that is less.
  static size_t Default();

  /// 0 = no limit.
  explicit ConnectionReplacement(size_t max) : max_(max) {}

  /// Counts a connection that was just accepted, and makes room for it. Returns
  /// false if too many disconnected connections are not closed yet; the caller
  /// must then close the new connection.
  bool Admit(int fd);
  /// Disconnects all connections.
  void DisconnectAll() const;

 private:
  struct Connection {
    int fd;
    ino_t inode;
    bool disconnected;
  };

  const size_t max_;
  size_t forget_at_ = 0;  // how many make Admit() forget those that are closed
  std::vector<Connection> open_;  // the oldest first
};

/// Bounds the open connections of an acceptor, and those from one client
/// address. Connections beyond a limit are rejected, because the open ones may
/// have calls. Not thread-safe.
class ConnectionCounts {
 public:
  /// 0 = no limit. IPv6 addresses with the same first `ipv6_prefix` bits are
  /// one client. `max_per_client` does not apply to Unix sockets, whose clients
  /// have no address.
  ConnectionCounts(size_t max, size_t max_per_client, int ipv6_prefix)
      : max_(max), max_per_client_(max_per_client), ipv6_prefix_(ipv6_prefix) {}

  /// Counts a connection that was just accepted. If it exceeds a limit, returns
  /// which one, and the caller must close the connection. Otherwise returns "".
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
  // By descriptor. gRPC closes connections without notice, so that some of
  // these may be closed.
  std::unordered_map<int, Connection> open_;
  std::unordered_map<std::string, Client> clients_;
  Clock::time_point last_sweep_;
};

}  // namespace topk
