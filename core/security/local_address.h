// Recognizes addresses of this machine.
#pragma once

#include <string_view>

namespace topk {

/// Returns true for a Unix socket address in gRPC's format: unix:path or
/// unix-abstract:name. A host name that merely begins with "unix" is not one.
bool IsUnixAddress(std::string_view address);

/// Returns true if a host, with or without a port, is this machine: localhost,
/// 127.0.0.0/8 (also IPv4-mapped), or ::1.
bool IsLoopback(std::string_view address);

}  // namespace topk
