// Addresses to serve at.
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace topk {

/// Returns an address as it was bound: host:port with the real port; unix:path
/// as it is.
std::string WithPort(const std::string& address, int port);

/// Returns the UNAVAILABLE status of an address that cannot be bound. `doing`
/// is the failed action, e.g. "listen on"; `field` is the setting; `why` is the
/// system's error.
Status CannotBind(std::string_view reason, std::string_view field,
                  std::string_view doing, std::string_view address,
                  std::string_view why =
                      "in use, not an address of this machine, or not "
                      "permitted");

}  // namespace topk
