// Validates server addresses given by users, and recognizes addresses of this
// machine.
#pragma once

#include <string>
#include <string_view>

namespace topk {

/// Returns true if `address` is exactly one host:port, with a port between
/// `min_port` and 65535. The host may be an IPv6 address in brackets.
bool IsHostPort(std::string_view address, int min_port);

/// Returns an error message if a port in a gRPC target is invalid, otherwise
/// "". gRPC itself would use the port modulo 65536, and would read 0x50 as 0.
/// Targets such as unix: and xds: have no ports.
std::string TargetError(std::string_view target);

/// Returns true for a Unix socket address in gRPC's format: unix:path or
/// unix-abstract:name. Returns false for host names that begin with "unix".
bool IsUnixAddress(std::string_view address);

/// Returns true if `address`, with or without a port, is an address of this
/// machine: localhost, 127.0.0.0/8 (also IPv4-mapped), or ::1.
bool IsLoopback(std::string_view address);

}  // namespace topk
