// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the memory available to this process in bytes: the minimum of the
/// machine's memory and the limits of its cgroup and the parent cgroups.
int64_t MemoryLimit();

/// Returns the default limit on open calls for this much memory: one call per
/// 512 KiB, at most 4096. An open call without a message uses 17 KiB, or 70 KiB
/// if it has many metadata fields. This memory does not count against any limit
/// on bytes.
int64_t DefaultMaxCalls(int64_t memory);

}  // namespace topk
