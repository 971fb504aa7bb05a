// Connections that leave file descriptors to the rest of the process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "server/transport/listeners.h"

namespace topk {

/// Raises this process's limit of file descriptors as far as it may, and keeps
/// some of them from connections: those beyond are closed as soon as they are
/// accepted. Call it before gRPC listens. Returns the limit.
///
/// gRPC 1.51 listens no more, for good, once accept4() has failed for want of a
/// file descriptor (CVE-2023-4785). So accept4() itself is ours in programs
/// that call this, and fails for nothing but the want of a connection.
int GuardAccept();

/// Bounds the open connections of listeners other than the main ones, until it
/// is destroyed, which must be before gRPC closes them. A connection beyond the
/// limit takes the place of the oldest one, which is disconnected: clients that
/// hold connections open lock nobody out.
class ConnectionLimit {
 public:
  /// Applies to these listeners of gRPC's together.
  ConnectionLimit(const std::vector<ListeningSocket>& listeners, size_t max);
  ~ConnectionLimit();
  ConnectionLimit(const ConnectionLimit&) = delete;
  ConnectionLimit& operator=(const ConnectionLimit&) = delete;

  /// The limit for a listener other than the main ones: 64, or a sixteenth of
  /// all file descriptors if that is less.
  static size_t Default();

  /// Counts a connection that was just accepted, and makes room for it. Returns
  /// false if it must be closed: too many of those disconnected are still open.
  bool Admit(int fd);

 private:
  struct Connection {
    int fd;
    ino_t inode;
    bool disconnected;
  };

  const std::vector<ListeningSocket> listeners_;
  const size_t max_;
  std::vector<Connection> open_;  // the oldest first
};

}  // namespace topk
