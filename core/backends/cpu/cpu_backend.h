// The portable CPU backend.
#pragma once

#include <memory>

#include "core/backends/backend.h"

namespace topk {

/// Returns a backend that accepts every plan and runs it with oneTBB on at most
/// `threads` threads, the caller's included. REQUIRES: threads >= 1.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace topk
