// Addresses of servers, as users write them.
#pragma once

#include <string>
#include <string_view>

namespace topk {

/// Whether an address is exactly one host:port with a port of `min_port` to
/// 65535. The host may be an IPv6 address in brackets.
bool IsHostPort(std::string_view address, int min_port);

/// Returns what is wrong with the ports of a gRPC target, or "". gRPC takes
/// ports modulo 65536 and 0x50 for 0. There are no
/// ports in targets such as unix: and xds:.
std::string TargetError(std::string_view target);

}  // namespace topk
