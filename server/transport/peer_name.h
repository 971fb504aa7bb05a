// Names of peers: clients are counted and limited by them.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace topk {

/// The name of every client of a Unix socket.
inline constexpr std::string_view kUnixPeer = "unix";

/// Returns the name of a peer without credentials: the address of one that gRPC
/// names "ipv4:1.2.3.4:5" or "ipv6:%5B::1%5D:5", kUnixPeer for a Unix socket.
std::string AddressOf(std::string_view peer);

/// Returns the address of a peer without its port, kUnixPeer for a Unix socket.
std::string AddressOf(const sockaddr& peer);

/// Returns the network of an IPv6 address, e.g. "2001:db8::/64", the IPv4
/// address of one that is mapped, any other name as it is.
std::string NetworkOf(const std::string& address, int ipv6_prefix);

}  // namespace topk
