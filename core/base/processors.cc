#include "core/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <thread>

namespace topk {
namespace {

// Returns the file's content up to 4 KiB, or "" if it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  char buffer[4096];
  const size_t size = std::fread(buffer, 1, sizeof(buffer), file);
  std::fclose(file);
  return std::string(buffer, size);
}

// Returns the path after "<id>:<controllers>:" of the line of /proc/self/cgroup
// whose controllers are `wanted` ("" for cgroup v2), or "".
std::string CgroupPath(const std::string& table, const std::string& wanted) {
  size_t begin = 0;
  while (begin < table.size()) {
    const size_t end = std::min(table.find('\n', begin), table.size());
    const std::string line = table.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string names = line.substr(first + 1, second - first - 1);
    const bool match =
        wanted.empty()
            ? names.empty()
            : ("," + names + ",").find("," + wanted + ",") != std::string::npos;
    if (match) return line.substr(second + 1);
  }
  return "";
}

// Returns the least quota from the cgroup up to the root of its hierarchy: a
// parent's limit binds its children. In a container the path of the host may
// not exist below the mount, but the mount's own root is the container's.
template <class ReadQuota>
int LeastQuota(std::string path, ReadQuota read_quota) {
  int least = 0;
  for (;;) {
    const int granted = ProcessorsOfQuota(read_quota(path));
    if (granted > 0) least = least == 0 ? granted : std::min(least, granted);
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

int QuotaOfThisProcess() {
  const std::string table = ReadSmallFile("/proc/self/cgroup");
  const int v2 = LeastQuota(CgroupPath(table, ""), [](const std::string& path) {
    return ReadSmallFile("/sys/fs/cgroup" + path + "/cpu.max");
  });
  if (v2 > 0) return v2;
  return LeastQuota(CgroupPath(table, "cpu"), [](const std::string& path) {
    const std::string base = "/sys/fs/cgroup/cpu" + path + "/cpu.cfs_";
    return ReadSmallFile(base + "quota_us") + " " +
           ReadSmallFile(base + "period_us");
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
    // More than CPU_SETSIZE processors: the mask does not fit.
    count = static_cast<int>(std::thread::hardware_concurrency());
  }
  const int quota = QuotaOfThisProcess();
  if (quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

}  // namespace topk
