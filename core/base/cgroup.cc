#include "core/base/cgroup.h"

#include <algorithm>
#include <cstdio>

namespace topk {
namespace {

// Returns the path of the cgroup with controller `wanted` ("" for cgroup v2),
// or "". `table` is /proc/self/cgroup; its lines are
// "<id>:<controllers>:<path>".
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

}  // namespace

std::string ReadKernelFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  char buffer[4096];
  const size_t size = std::fread(buffer, 1, sizeof(buffer), file);
  std::fclose(file);
  return std::string(buffer, size);
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

}  // namespace topk
