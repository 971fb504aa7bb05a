#include "server/transport/listeners.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/base/text.h"
#include "core/security/local_address.h"

namespace topk {
namespace {

// Returns the inode of a listening socket, or 0 for any other descriptor.
ino_t InodeOfListener(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
      listens == 0) {
    return 0;
  }
  struct stat found {};
  return fstat(fd, &found) == 0 ? found.st_ino : 0;
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

std::vector<ListeningSocket> ListeningSockets() {
  std::vector<ListeningSocket> sockets;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string text = entry.path().filename();
    int fd = -1;
    std::from_chars(text.data(), text.data() + text.size(), fd);
    if (const ino_t inode = InodeOfListener(fd); inode != 0) {
      sockets.push_back({fd, inode});
    }
  }
  return sockets;
}

std::vector<ListeningSocket> ListeningSince(
    const std::vector<ListeningSocket>& before) {
  std::vector<ListeningSocket> sockets = ListeningSockets();
  std::erase_if(sockets, [&](const ListeningSocket& socket) {
    return std::ranges::find(before, socket) != before.end();
  });
  return sockets;
}

void StopListening(const std::vector<ListeningSocket>& sockets) {
  for (const ListeningSocket& socket : sockets) {
    if (InodeOfListener(socket.fd) == socket.inode) {
      shutdown(socket.fd, SHUT_RD);
    }
  }
}

}  // namespace topk
