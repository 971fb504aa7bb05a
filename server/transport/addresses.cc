#include "server/transport/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>

#include "core/base/text.h"

namespace topk {

namespace {

std::string Text(int family, const void* bits) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, bits, text, sizeof(text));
}

// Writes an IPv4-mapped address as an IPv4 address.
std::string Text(const in6_addr& bits) {
  return IN6_IS_ADDR_V4MAPPED(&bits) ? Text(AF_INET, &bits.s6_addr[12])
                                     : Text(AF_INET6, &bits);
}

}  // namespace

std::string AddressOf(std::string_view peer) {
  if (peer.starts_with(kUnixPeer)) return std::string(kUnixPeer);
  const size_t scheme = peer.find(':');
  if (scheme != std::string_view::npos) peer.remove_prefix(scheme + 1);
  std::string address(peer.substr(0, peer.rfind(':')));
  for (const std::string_view bracket : {"%5B", "[", "%5D", "]"}) {
    const size_t at = address.find(bracket);
    if (at != std::string::npos) address.erase(at, bracket.size());
  }
  in6_addr bits;
  const bool mapped = inet_pton(AF_INET6, address.c_str(), &bits) == 1 &&
                      IN6_IS_ADDR_V4MAPPED(&bits);
  return mapped ? Text(bits) : address;
}

std::string AddressOf(const sockaddr& peer) {
  if (peer.sa_family == AF_INET) {
    return Text(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.sa_family == AF_INET6) {
    return Text(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
  }
  return std::string(kUnixPeer);
}

std::string NetworkOf(const std::string& address, int ipv6_prefix) {
  in6_addr bits;
  // A link-local address can end with its interface, as in fe80::1%eth0.
  const std::string plain = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, plain.c_str(), &bits) != 1) return address;
  if (IN6_IS_ADDR_V4MAPPED(&bits)) return Text(bits);
  for (int i = 0; i < 16; ++i) {
    const int kept = std::clamp(ipv6_prefix - 8 * i, 0, 8);
    bits.s6_addr[i] &= static_cast<uint8_t>(0xff00 >> kept);
  }
  return StrCat(Text(bits), "/", ipv6_prefix);
}

}  // namespace topk
