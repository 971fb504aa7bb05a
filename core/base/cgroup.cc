#include "core/base/cgroup.h"

#include <cstdio>
#include <sstream>

namespace topk {
namespace {

// Returns the path of the cgroup with controller `wanted` ("" for cgroup v2),
// or "". `table` is /proc/self/cgroup; its lines are
// "<id>:<controllers>:<path>".
std::string CgroupPath(const std::string& table, const std::string& wanted) {
  std::istringstream lines(table);
  std::string id;
  std::string names;
  std::string path;
  while (std::getline(lines, id, ':') && std::getline(lines, names, ':') &&
         std::getline(lines, path)) {
    const bool match =
        wanted.empty()
            ? names.empty()
            : ("," + names + ",").find("," + wanted + ",") != std::string::npos;
    if (match) return path;
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
