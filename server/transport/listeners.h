// Addresses to serve at, and the sockets on which gRPC waits there.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// Returns an address as it was bound: host:port with the real port; unix:path
/// as it is.
std::string WithPort(const std::string& address, int port);

/// Returns the UNAVAILABLE status of an address that cannot be bound. `doing`
/// is what was to be done there, e.g. "listen on"; the field is the setting.
Status CannotBind(std::string_view reason, std::string_view field,
                  std::string_view doing, std::string_view address);

/// A socket on which this process listens.
struct ListeningSocket {
  int fd;
  /// The kernel's number of the socket: the descriptor may be reused.
  ino_t inode;
  bool operator==(const ListeningSocket&) const = default;
};

/// Returns all sockets on which this process listens now.
std::vector<ListeningSocket> ListeningSockets();

/// Returns those on which it has begun to listen since then: `before` is what
/// ListeningSockets() returned.
std::vector<ListeningSocket> ListeningSince(
    const std::vector<ListeningSocket>& before);

/// Stops listening on sockets: from now on connection attempts are refused;
/// open connections stay. gRPC 1.51 closes its listeners only with the whole
/// server.
void StopListening(const std::vector<ListeningSocket>& sockets);

}  // namespace topk
