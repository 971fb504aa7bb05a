// How many processors this process may use.
#pragma once

#include <string>

namespace topk {

/// Returns how many threads can run at once, >= 1: the processors of the
/// affinity mask, or fewer where a cgroup (v2 cpu.max, v1 cfs quota) grants
/// less; a part of a processor counts as one.
int AvailableProcessors();

/// Returns the processors that a cgroup's quota grants, rounded up, or 0 for no
/// limit or a text that is neither form. `quota` is the content of cpu.max
/// ("max 100000", "150000 100000"), or "<cfs_quota_us> <cfs_period_us>".
int ProcessorsOfQuota(const std::string& quota);

}  // namespace topk
