#include "server/grpc_workarounds/connection_limits.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/text.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

// Returns the inode number of a descriptor, or 0 if it is closed.
ino_t InodeOf(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 ? found.st_ino : 0;
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

// Returns the client's network, or "" for a Unix socket.
std::string ClientOf(const sockaddr& peer, int ipv6_prefix) {
  const bool is_ip = peer.sa_family == AF_INET || peer.sa_family == AF_INET6;
  return is_ip ? NetworkOf(AddressOf(peer), ipv6_prefix) : "";
}

// Returns whether kInterval has passed since `last`, the time of the last sweep
// for closed connections. If so, sets `last` to the current time.
bool MaySweep(std::chrono::steady_clock::time_point& last) {
  constexpr std::chrono::milliseconds kInterval{100};
  const auto now = std::chrono::steady_clock::now();
  if (now - last < kInterval) return false;
  last = now;
  return true;
}

}  // namespace

rlim_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

size_t ConnectionReplacement::Default() {
  constexpr rlim_t kMax = 64;
  constexpr rlim_t kPart = 16;
  return std::clamp<rlim_t>(DescriptorLimit() / kPart, 1, kMax);
}

bool ConnectionReplacement::Admit(int fd) {
  if (max_ > 0 || open_.size() >= sweep_at_) {
    std::erase_if(open_, [](const Connection& connection) {
      return InodeOf(connection.fd) != connection.inode;
    });
    sweep_at_ = 2 * open_.size() + 64;
  }
  if (max_ > 0) {
    // Allow max_ connected sockets, and max_ disconnected but unclosed sockets.
    if (open_.size() >= 2 * max_) return false;
    const auto oldest =
        std::ranges::find(open_, false, &Connection::disconnected);
    if (open_.end() - oldest >= static_cast<ptrdiff_t>(max_)) {
      Disconnect(oldest->fd, oldest->inode);
      oldest->disconnected = true;
    }
  }
  open_.push_back({fd, InodeOf(fd), false});
  return true;
}

void ConnectionReplacement::DisconnectAll() const {
  for (const Connection& open : open_) Disconnect(open.fd, open.inode);
}

void ConnectionCounts::Forget(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  const auto client = clients_.find(found->second.client);
  if (client != clients_.end()) {
    std::erase(client->second.fds, fd);
    if (client->second.fds.empty()) clients_.erase(client);
  }
  open_.erase(found);
}

void ConnectionCounts::ForgetClosed(const std::vector<int>& fds) {
  for (const int fd : fds) {
    if (InodeOf(fd) != open_.at(fd).inode) Forget(fd);
  }
}

size_t ConnectionCounts::CountOf(const std::string& client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second.fds.size();
}

std::string ConnectionCounts::Admit(int fd, const sockaddr& peer) {
  // Checking this many connections takes 50 us: one system call for each.
  constexpr size_t kCheapSweep = 64;
  if (max_ == 0 && max_per_client_ == 0) return "";
  Forget(fd);  // a closed connection, if its descriptor was reused
  const std::string client =
      max_per_client_ > 0 ? ClientOf(peer, ipv6_prefix_) : "";
  if (!client.empty() && CountOf(client) >= max_per_client_) {
    Client& own = clients_.at(client);
    if (own.fds.size() <= kCheapSweep || MaySweep(own.last_sweep)) {
      ForgetClosed(std::vector<int>(own.fds));
    }
    if (CountOf(client) >= max_per_client_) {
      return StrCat(
          "the client has too many open connections "
          "(--max-connections-per-client = ",
          max_per_client_, ")");
    }
  }
  if (max_ > 0 && open_.size() >= max_) {
    if (MaySweep(last_sweep_)) {
      std::vector<int> all;
      for (const auto& entry : open_) all.push_back(entry.first);
      ForgetClosed(all);
    }
    if (open_.size() >= max_) {
      return StrCat(
          "the server has too many open connections "
          "(--max-connections = ",
          max_, ")");
    }
  }
  open_.emplace(fd, Connection{InodeOf(fd), client});
  if (!client.empty()) clients_[client].fds.push_back(fd);
  return "";
}

}  // namespace topk
