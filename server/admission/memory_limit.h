// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the memory available to this process in bytes: the minimum of the
/// machine's memory and the limits of its cgroup and the parent cgroups.
int64_t MemoryLimit();

/// Returns the default limit on open calls: one call per 512 KiB of `memory`,
/// at most 4096. An open call without a message uses 17 KiB, or 70 KiB if it
/// has many metadata fields. Limits on bytes ignore this memory.
int64_t DefaultMaxCalls(int64_t memory);

}  // namespace topk
