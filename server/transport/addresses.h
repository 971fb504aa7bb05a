// Addresses of listeners and of clients.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace topk {

/// The name of every client of a Unix socket.
inline constexpr std::string_view kUnixPeer = "unix";

/// Returns the address of a client without its port, or kUnixPeer for a client
/// of a Unix socket. `peer` is gRPC's name, e.g. "ipv4:1.2.3.4:5" or
/// "ipv6:%5B::1%5D:5".
std::string AddressOf(std::string_view peer);
std::string AddressOf(const sockaddr& peer);

/// Returns the name by which a client is counted and limited: the network of an
/// IPv6 address, e.g. "2001:db8::/64", the IPv4 address of one that is mapped
/// to IPv6, and any other name unchanged.
std::string NetworkOf(const std::string& address, int ipv6_prefix);

/// Returns the bound address of a listener: host:port with the real port,
/// unix:path unchanged.
std::string WithPort(const std::string& address, int port);

/// Returns the UNAVAILABLE status for an address that cannot be bound. `doing`
/// is the failed action, e.g. "listen on"; `why` is the system's error.
Status CannotBind(std::string_view doing, std::string_view address,
                  std::string_view why =
                      "in use, not an address of this machine, or not "
                      "permitted");

}  // namespace topk
