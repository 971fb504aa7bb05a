#include "server/grpc_workarounds/connection_limits.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/text.h"

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

}  // namespace

rlim_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

size_t ConnectionLimits::DefaultReplaced() {
  constexpr rlim_t kMax = 64;
  constexpr rlim_t kPart = 16;
  return std::clamp<rlim_t>(DescriptorLimit() / kPart, 1, kMax);
}

void ConnectionLimits::Sweep() {
  std::erase_if(open_, [](const Connection& connection) {
    return InodeOf(connection.fd) != connection.inode;
  });
  counts_.clear();
  for (const Connection& open : open_) ++counts_[open.client];
  sweep_at_ = 2 * open_.size() + 64;
  swept_ = std::chrono::steady_clock::now();
}

std::string ConnectionLimits::Refusal(const std::string& client) const {
  const auto own = counts_.find(client);
  if (limits_.max_per_client > 0 && !client.empty() && own != counts_.end() &&
      own->second >= limits_.max_per_client) {
    return StrCat(
        "the client has too many open connections "
        "(--max-connections-per-client = ",
        limits_.max_per_client, ")");
  }
  if (limits_.max > 0 && open_.size() >= limits_.max) {
    return StrCat(
        "the server has too many open connections (--max-connections = ",
        limits_.max, ")");
  }
  // Allow max_replaced connected sockets, and as many disconnected but unclosed
  // sockets.
  if (limits_.max_replaced > 0 && open_.size() >= 2 * limits_.max_replaced) {
    return "too many replaced connections are not closed yet";
  }
  return "";
}

std::string ConnectionLimits::Admit(int fd, const std::string& client) {
  // A sweep makes a system call for each connection, which takes about 1 us.
  constexpr std::chrono::milliseconds kSweepInterval{100};
  std::string refusal = Refusal(client);
  const bool may_be_outdated =
      !refusal.empty() &&
      std::chrono::steady_clock::now() - swept_ >= kSweepInterval;
  if (limits_.max_replaced > 0 || open_.size() >= sweep_at_ ||
      may_be_outdated) {
    Sweep();
    refusal = Refusal(client);
  }
  if (!refusal.empty()) return refusal;
  if (limits_.max_replaced > 0) {
    const auto oldest =
        std::ranges::find(open_, false, &Connection::disconnected);
    if (open_.end() - oldest >= static_cast<ptrdiff_t>(limits_.max_replaced)) {
      Disconnect(oldest->fd, oldest->inode);
      oldest->disconnected = true;
    }
  }
  open_.push_back({fd, InodeOf(fd), client});
  ++counts_[client];
  return "";
}

void ConnectionLimits::DisconnectAll() const {
  for (const Connection& open : open_) Disconnect(open.fd, open.inode);
}

}  // namespace topk
