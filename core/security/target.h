// Validates server addresses given by users.
#pragma once

#include <string>
#include <string_view>

namespace topk {

/// Returns true if `address` is exactly one host:port, with a port between
/// `min_port` and 65535. The host may be an IPv6 address in brackets.
bool IsHostPort(std::string_view address, int min_port);

/// Returns an error message if a port in a gRPC target is invalid, or "".
/// Needed because gRPC takes ports modulo 65536 and 0x50 as 0. Targets such as
/// unix: and xds: have no ports.
std::string TargetError(std::string_view target);

}  // namespace topk
