// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the memory available to this process in bytes: the minimum of the
/// machine's memory and the limits of its cgroup and the parent cgroups.
int64_t MemoryLimit();

}  // namespace topk
