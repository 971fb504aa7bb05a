#include "server/grpc_workarounds/connection_limits.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/text.h"

namespace topk {
namespace {

// Returns the inode number of a descriptor, or 0 if it is closed. Does not use
// fstat(), because Clang 14's ThreadSanitizer ends the process if fstat() is
// called for a descriptor that gRPC closes at the same time.
ino_t InodeOf(int fd) {
  struct stat found {};
  return fstatat(fd, "", &found, AT_EMPTY_PATH) == 0 ? found.st_ino : 0;
}

// Disconnects a socket, unless its descriptor has been reused for another file.
// Uses a duplicate of the descriptor, because another thread could close `fd`
// after the check.
void Disconnect(int fd, ino_t inode) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (InodeOf(copy) == inode) shutdown(copy, SHUT_RDWR);
  close(copy);
}

}  // namespace

void ConnectionLimits::Sweep() {
  std::erase_if(open_, [](const Connection& connection) {
    return InodeOf(connection.fd) != connection.inode;
  });
  swept_ = std::chrono::steady_clock::now();
}

std::string ConnectionLimits::Admit(int fd, const std::string& client) {
  // A sweep makes a system call for each connection, which takes about 1 us.
  // Spend at most 2 % of the time on sweeps.
  const std::chrono::microseconds interval(
      std::max<size_t>(100'000, 50 * open_.size()));
  if (options_.max_replaced > 0 ||
      std::chrono::steady_clock::now() - swept_ >= interval) {
    Sweep();
  }
  if (options_.max_connections_per_client > 0 && !client.empty() &&
      std::ranges::count(open_, client, &Connection::client) >=
          options_.max_connections_per_client) {
    return StrCat(
        "the client has too many open connections "
        "(--max-connections-per-client = ",
        options_.max_connections_per_client, ")");
  }
  if (options_.max_connections > 0 &&
      std::ssize(open_) >= options_.max_connections) {
    return StrCat(
        "the server has too many open connections (--max-connections = ",
        options_.max_connections, ")");
  }
  if (options_.max_replaced > 0) {
    // Allow options_.max_replaced connected sockets, and as many disconnected
    // but unclosed sockets.
    if (std::ssize(open_) >= 2 * options_.max_replaced) {
      return "too many replaced connections are not closed yet";
    }
    const auto oldest =
        std::ranges::find(open_, false, &Connection::disconnected);
    if (open_.end() - oldest >= options_.max_replaced) {
      Disconnect(oldest->fd, oldest->inode);
      oldest->disconnected = true;
    }
  }
  open_.push_back({fd, InodeOf(fd), client});
  return "";
}

void ConnectionLimits::DisconnectAll() const {
  for (const Connection& open : open_) Disconnect(open.fd, open.inode);
}

}  // namespace topk
