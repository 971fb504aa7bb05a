// How much memory this process may take.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the least of the machine's memory and the limits of the cgroup and
/// of its parents, in bytes.
int64_t MemoryLimit();

}  // namespace topk
