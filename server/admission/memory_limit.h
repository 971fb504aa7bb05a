// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the memory available to this process in bytes: the minimum of the
/// machine's memory and the limits of its cgroup and the parent cgroups.
int64_t MemoryLimit();

/// Returns how many calls may be open at a time by default: one per 512 KiB of
/// memory, at most 4096. Before a call's message arrives, the call uses 17 KiB,
/// or 70 KiB with many small metadata fields, which no limit on bytes counts.
int64_t DefaultMaxCalls();

}  // namespace topk
