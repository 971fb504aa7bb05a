#include "core/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "core/base/cgroup.h"

namespace topk {
namespace {

// Returns the lowest quota of the cgroup and its parents, or 0.
template <class ReadQuota>
int MinQuota(const std::string& controller, ReadQuota read_quota) {
  int least = 0;
  for (const std::string& folder : CgroupFolders(controller)) {
    const int granted = ProcessorsOfQuota(read_quota(folder));
    if (granted > 0) least = least == 0 ? granted : std::min(least, granted);
  }
  return least;
}

int QuotaOfThisProcess() {
  const int v2 = MinQuota("", [](const std::string& folder) {
    return ReadKernelFile(folder + "/cpu.max");
  });
  if (v2 > 0) return v2;
  return MinQuota("cpu", [](const std::string& folder) {
    return ReadKernelFile(folder + "/cpu.cfs_quota_us") + " " +
           ReadKernelFile(folder + "/cpu.cfs_period_us");
  });
}

}  // namespace

int ProcessorsOfQuota(const std::string& quota) {
  long long granted = 0;
  long long period = 0;
  if (std::sscanf(quota.c_str(), "%lld %lld", &granted, &period) != 2) return 0;
  if (granted <= 0 || period <= 0) return 0;
  const long long whole = granted / period + (granted % period != 0);
  return static_cast<int>(std::min<long long>(whole, 1 << 20));
}

int AvailableProcessors() {
  cpu_set_t mask;
  int count = 0;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    count = CPU_COUNT(&mask);
  } else {
    // The mask cannot hold more than CPU_SETSIZE processors.
    count = static_cast<int>(std::thread::hardware_concurrency());
  }
  const int quota = QuotaOfThisProcess();
  if (quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

}  // namespace topk
