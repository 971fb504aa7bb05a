// The number of processors that this process may use.
#pragma once

#include <string>

namespace topk {

/// Returns the number of threads that can run in parallel, at least 1. This is
/// the number of processors in the affinity mask, or the cgroup quota (v2
/// cpu.max, v1 cfs_quota_us) if it is lower. Fractions of a processor round up.
int AvailableProcessors();

/// Returns the number of processors that a cgroup quota grants, rounded up, or
/// 0 if there is no limit or the text is malformed. `quota` is the content of
/// cpu.max ("max 100000", "150000 100000") or "<cfs_quota_us> <cfs_period_us>".
int ProcessorsOfQuota(const std::string& quota);

}  // namespace topk
