// The control groups (cgroups) of this process.
#pragma once

#include <string>
#include <vector>

namespace topk {

/// Returns the first 4 KiB of a file, or "" if it cannot be read.
std::string ReadKernelFile(const std::string& path);

/// Returns the folders of this process's cgroup and its parents, up to the root
/// of the hierarchy. The limits of all of them apply. `controller` is "" for
/// cgroup v2, or the name of a v1 controller, e.g. "memory". In a container,
/// the folders may not exist, except for the root, which is that of the
/// container.
std::vector<std::string> CgroupFolders(const std::string& controller);

}  // namespace topk
