// Checks names of shared memory objects.
#pragma once

#include <string>

#include "topk/status.h"

namespace topk {

/// Returns INVALID_ARGUMENT with reason SHARED_MEMORY_NAME, for the request
/// field or argument `field`, unless `name` is a slash and then 1 to 254 bytes
/// other than slash and NUL.
Status CheckObjectName(const std::string& name, const std::string& field);

}  // namespace topk
