// The control groups (cgroups) of this process.
#pragma once

#include <string>
#include <vector>

namespace topk {

/// Returns the file's content up to 4 KiB, or "" if it cannot be read.
std::string ReadKernelFile(const std::string& path);

/// Returns the folders of this process's cgroup and of its parents up to the
/// root of the hierarchy, whose limits all bind it: those of cgroup v2 for "",
/// else of a controller of v1, e.g. "memory". In a container the path of the
/// host may not exist, but the root is the container's.
std::vector<std::string> CgroupFolders(const std::string& controller);

}  // namespace topk
