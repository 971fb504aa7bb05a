#include "server/transport/accept_guard.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <map>
#include <mutex>

namespace topk {
namespace {

// What shared memory, files and the metrics' connections may need.
constexpr int kReserved = 96;

// The least descriptor that no connection may have. The kernel gives out the
// least that is free: if it gives out this one, all below it are taken.
std::atomic<int> first_refused = INT_MAX;

// A descriptor to take connections with that are closed at once, kept from
// when there still were some.
std::mutex spare_mutex;
int spare = -1;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Takes the next connection and closes it. Returns whether there was one.
bool RefuseNext(int listener) {
  const std::lock_guard lock(spare_mutex);
  if (spare >= 0) close(spare);
  const auto fd = static_cast<int>(
      syscall(SYS_accept4, listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (fd >= 0) close(fd);
  spare = OpenSpare();
  return fd >= 0;
}

// The limits of listeners, by file descriptor.
std::mutex limits_mutex;
std::map<int, ConnectionLimit*>& LimitsByListener() {
  // Never destroyed: connections are accepted until the process ends.
  static auto& limits = *new std::map<int, ConnectionLimit*>;
  return limits;
}

// Returns whether a connection may stay.
bool Admit(int listener, int fd) {
  const std::lock_guard lock(limits_mutex);
  const auto limit = LimitsByListener().find(listener);
  return limit == LimitsByListener().end() || limit->second->Admit(fd);
}

// Returns the kernel's number of a socket, 0 for a closed descriptor.
ino_t InodeOf(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

// Disconnects a socket unless its descriptor is another one's by now: what
// counts is a copy, which nobody else closes.
void Disconnect(int fd, ino_t inode) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (InodeOf(copy) == inode) shutdown(copy, SHUT_RDWR);
  close(copy);
}

}  // namespace

ConnectionLimit::ConnectionLimit(const std::vector<ListeningSocket>& listeners,
                                 size_t max)
    : listeners_(listeners), max_(max) {
  const std::lock_guard lock(limits_mutex);
  for (const ListeningSocket& listener : listeners_) {
    LimitsByListener()[listener.fd] = this;
  }
}

ConnectionLimit::~ConnectionLimit() {
  const std::lock_guard lock(limits_mutex);
  for (const ListeningSocket& listener : listeners_) {
    LimitsByListener().erase(listener.fd);
  }
}

size_t ConnectionLimit::Default() {
  constexpr rlim_t kMax = 64;
  constexpr rlim_t kPart = 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMax;
  return std::clamp<rlim_t>(limit.rlim_cur / kPart, 1, kMax);
}

bool ConnectionLimit::Admit(int fd) {
  std::erase_if(open_, [](const Connection& connection) {
    return InodeOf(connection.fd) != connection.inode;
  });
  // gRPC closes them a moment after they are disconnected.
  if (open_.size() >= 2 * max_) return false;
  const auto oldest =
      std::ranges::find(open_, false, &Connection::disconnected);
  if (open_.end() - oldest >= static_cast<ptrdiff_t>(max_)) {
    Disconnect(oldest->fd, oldest->inode);
    oldest->disconnected = true;
  }
  open_.push_back({fd, InodeOf(fd), false});
  return true;
}

int GuardAccept() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
  first_refused = std::max(most - kReserved, most / 2);
  const std::lock_guard lock(spare_mutex);
  if (spare < 0) spare = OpenSpare();
  return most;
}

}  // namespace topk

/// gRPC's, in place of the C library's.
extern "C" int accept4(int listener, sockaddr* address, socklen_t* size,
                       int flags) {
  const socklen_t room = size == nullptr ? 0 : *size;
  while (true) {
    if (size != nullptr) *size = room;
    const auto fd =
        static_cast<int>(syscall(SYS_accept4, listener, address, size, flags));
    if (fd >= topk::first_refused || (fd >= 0 && !topk::Admit(listener, fd))) {
      close(fd);
      continue;
    }
    if (fd >= 0) return fd;
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        if (topk::RefuseNext(listener)) continue;
        errno = EAGAIN;
        return fd;
      case EPROTO:  // and the others of a connection that is gone already
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH:
        continue;
      default:
        return fd;
    }
  }
}
