#include "core/common/process_limits.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

namespace topk {
namespace {

// Returns the path of the cgroup with controller `wanted` ("" for cgroup v2),
// or "" if there is none. `table` is the content of /proc/self/cgroup. Its
// lines are "<id>:<controllers>:<path>", without controllers for cgroup v2.
std::string CgroupPath(const std::string& table, const std::string& wanted) {
  std::istringstream lines(table);
  std::string id;
  std::string names;
  std::string path;
  while (std::getline(lines, id, ':') && std::getline(lines, names, ':') &&
         std::getline(lines, path)) {
    const std::string all = "," + names + ",";
    if (all.find("," + wanted + ",") != std::string::npos) return path;
  }
  return "";
}

// Lowers `count` to the lowest quota of the cgroup and its parents. Returns
// whether any quota is set.
bool ApplyQuotas(bool v2, int& count) {
  bool limited = false;
  for (const std::string& folder : CgroupFolders(v2 ? "" : "cpu")) {
    const int granted = ProcessorsOfQuota(
        v2 ? ReadKernelFile(folder + "/cpu.max")
           : ReadKernelFile(folder + "/cpu.cfs_quota_us") + " " +
                 ReadKernelFile(folder + "/cpu.cfs_period_us"));
    limited |= granted > 0;
    if (granted > 0) count = std::min(count, granted);
  }
  return limited;
}

}  // namespace

rlim_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string ReadKernelFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> CgroupFolders(const std::string& controller) {
  std::string root = "/sys/fs/cgroup";
  if (!controller.empty()) root += "/" + controller;
  std::string path =
      CgroupPath(ReadKernelFile("/proc/self/cgroup"), controller);
  std::vector<std::string> folders;
  for (;;) {
    folders.push_back(root + path);
    if (path.empty()) return folders;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

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
    // sched_getaffinity() fails if the kernel supports more CPUs than `mask`.
    count = static_cast<int>(std::thread::hardware_concurrency());
  }
  if (!ApplyQuotas(true, count)) ApplyQuotas(false, count);
  return std::max(count, 1);
}

}  // namespace topk
