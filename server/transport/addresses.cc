#include "server/transport/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>

#include "core/base/text.h"
#include "core/security/target.h"

namespace topk {

std::string AddressOf(std::string_view peer) {
  if (peer.starts_with(kUnixPeer)) return std::string(kUnixPeer);
  const size_t scheme = peer.find(':');
  if (scheme != std::string_view::npos) peer.remove_prefix(scheme + 1);
  peer = peer.substr(0, peer.rfind(':'));
  for (const std::string_view open : {"%5B", "["}) {
    if (peer.starts_with(open)) peer.remove_prefix(open.size());
  }
  for (const std::string_view close : {"%5D", "]"}) {
    if (peer.ends_with(close)) peer.remove_suffix(close.size());
  }
  return std::string(peer);
}

std::string AddressOf(const sockaddr& peer) {
  const void* bits = nullptr;
  if (peer.sa_family == AF_INET) {
    bits = &reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
  } else if (peer.sa_family == AF_INET6) {
    bits = &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  } else {
    return std::string(kUnixPeer);
  }
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(peer.sa_family, bits, text, sizeof(text));
}

std::string NetworkOf(const std::string& address, int ipv6_prefix) {
  in6_addr bits;
  // A link-local address can end with its interface, as in fe80::1%eth0.
  const std::string plain = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, plain.c_str(), &bits) != 1) return address;
  char text[INET6_ADDRSTRLEN];
  if (IN6_IS_ADDR_V4MAPPED(&bits)) {
    return inet_ntop(AF_INET, &bits.s6_addr[12], text, sizeof(text));
  }
  for (int i = 0; i < 16; ++i) {
    const int kept = std::clamp(ipv6_prefix - 8 * i, 0, 8);
    bits.s6_addr[i] &= static_cast<uint8_t>(0xff00 >> kept);
  }
  inet_ntop(AF_INET6, &bits, text, sizeof(text));
  return StrCat(text, "/", ipv6_prefix);
}

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return StrCat(address.substr(0, address.rfind(':') + 1), port);
}

Status CannotBind(std::string_view doing, std::string_view address,
                  std::string_view why) {
  return {Code::kUnavailable, "LISTEN", "",
          StrCat("cannot ", doing, " ", address, ": ", why)};
}

}  // namespace topk
