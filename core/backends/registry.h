// Which backends were built in.
#pragma once

#include <memory>
#include <vector>

#include "core/backends/backend.h"

namespace topk {

/// Returns the backends in the order in which they are tried; the last accepts
/// every plan. `threads` >= 1 bounds the threads of each.
std::vector<std::unique_ptr<Backend>> MakeBackends(int threads);

}  // namespace topk
