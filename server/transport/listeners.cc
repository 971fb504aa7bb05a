#include "server/transport/listeners.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "core/base/text.h"
#include "core/security/local_address.h"

namespace topk {
namespace {

// Returns what a socket listens at: ":port", "unix:path", or "" if it does not
// listen. The host is left out: gRPC has one socket for all of them.
std::string ListensAt(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
      listens == 0) {
    return "";
  }
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un local;
  } name{};
  size = sizeof(name);
  if (getsockname(fd, &name.any, &size) != 0) return "";
  switch (name.any.sa_family) {
    case AF_INET:
      return Cat(":", ntohs(name.v4.sin_port));
    case AF_INET6:
      return Cat(":", ntohs(name.v6.sin6_port));
    case AF_UNIX:
      return Cat("unix:", name.local.sun_path);
    default:
      return "";
  }
}

}  // namespace

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return Cat(address.substr(0, address.rfind(':') + 1), port);
}

Status CannotBind(std::string_view reason, std::string_view field,
                  std::string_view doing, std::string_view address) {
  return {Code::kUnavailable, std::string(reason), std::string(field),
          Cat("cannot ", doing, " ", address,
              ": in use, not an address of this machine, or not permitted")};
}

void StopListening(const std::vector<std::string>& addresses) {
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string text = entry.path().filename();
    int fd = -1;
    std::from_chars(text.data(), text.data() + text.size(), fd);
    const std::string at = ListensAt(fd);
    if (!at.empty() && std::any_of(addresses.begin(), addresses.end(),
                                   [&](const std::string& address) {
                                     return address.ends_with(at);
                                   })) {
      shutdown(fd, SHUT_RD);
    }
  }
}

}  // namespace topk
