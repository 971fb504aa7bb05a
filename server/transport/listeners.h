// Addresses to serve at, and the sockets on which gRPC waits there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// Returns an address as it was bound: host:port with the real port; unix:path
/// as it is.
std::string WithPort(const std::string& address, int port);

/// Returns the UNAVAILABLE status of an address that cannot be bound. `doing`
/// is what was to be done there, e.g. "listen on"; the field is the setting.
Status CannotBind(std::string_view reason, std::string_view field,
                  std::string_view doing, std::string_view address);

/// Has this process listen no more at bound addresses, host:port or unix:path:
/// from now on nobody can connect there; who is connected stays. gRPC 1.51
/// closes its listeners with the whole server alone.
void StopListening(const std::vector<std::string>& addresses);

}  // namespace topk
