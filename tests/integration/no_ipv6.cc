// A library that hides IPv6 from a program when preloaded.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

extern "C" int socket(int family, int type, int protocol) noexcept {
  if (family == AF_INET6) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return static_cast<int>(syscall(SYS_socket, family, type, protocol));
}
