#include "server/transport/accept_guard.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <mutex>

namespace topk {
namespace {

// What shared memory, files and the metrics' connections may need.
constexpr int kReserved = 64;

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

}  // namespace

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
    if (fd >= topk::first_refused) {
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
