// Addresses that lead nowhere but to this machine.
#pragma once

#include <string_view>

namespace topk {

/// Whether an address is that of a Unix socket, as gRPC writes it: unix:path or
/// unix-abstract:name. A host's name may begin with "unix" too.
bool IsUnixAddress(std::string_view address);

/// Whether a host, with a port or without one, is this machine: localhost,
/// 127.0.0.0/8, also mapped to IPv6, or ::1.
bool IsLoopback(std::string_view address);

}  // namespace topk
