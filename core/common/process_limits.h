// The processors and file descriptors that this process may use, and its
// control groups (cgroups).
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace topk {

/// Returns the number of threads that can run in parallel, at least 1. This is
/// the number of processors in the affinity mask, or the cgroup quota (v2
/// cpu.max, v1 cfs_quota_us) if the quota is lower. Fractions round up.
int AvailableProcessors();

/// Returns the number of processors that a cgroup quota grants, rounded up, or
/// 0 if there is no limit or the text is malformed. `quota` is the content of
/// cpu.max ("max 100000", "150000 100000") or "<cfs_quota_us> <cfs_period_us>".
int ProcessorsOfQuota(const std::string& quota);

/// Returns the soft limit on file descriptors.
rlim_t DescriptorLimit();

/// Returns the content of a file, or "" if it cannot be read.
std::string ReadKernelFile(const std::string& path);

/// Returns the folders of this process's cgroup and its parents, up to the root
/// of the hierarchy. The limits of all these cgroups apply. `controller` is ""
/// for cgroup v2, or a v1 controller, e.g. "memory". In some containers, only
/// the root folder exists. This folder is the container's own cgroup.
std::vector<std::string> CgroupFolders(const std::string& controller);

}  // namespace topk
