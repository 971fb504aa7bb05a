// Addresses of listeners and clients.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace topk {

/// The address used for all clients of a Unix socket.
inline constexpr std::string_view kUnixPeer = "unix";

/// Returns the client's address without the port, or kUnixPeer for a client of
/// a Unix socket. Converts an IPv4-mapped address to an IPv4 address. `peer` is
/// in gRPC's format, e.g. "ipv6:%5B::1%5D:5".
std::string AddressOf(std::string_view peer);
std::string AddressOf(const sockaddr& peer);

/// Returns the name under which a client is counted and limited: the network of
/// an IPv6 address, e.g. "2001:db8::/64", or the IPv4 address of an IPv4-mapped
/// address. Returns any other address unchanged.
std::string NetworkOf(const std::string& address, int ipv6_prefix);

}  // namespace topk
