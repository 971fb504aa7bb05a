// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the minimum of the machine's memory and the limits of the cgroup and
/// of its parents, in bytes.
int64_t MemoryLimit();

}  // namespace topk
