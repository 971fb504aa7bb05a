#include "server/admission/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "core/base/cgroup.h"

namespace topk {
namespace {

// Returns the minimum of `most` and the limits in these files. Each file holds
// a number, or a word if there is no limit.
int64_t Least(int64_t most, const std::string& controller, const char* file) {
  for (const std::string& folder : CgroupFolders(controller)) {
    const std::string text = ReadKernelFile(folder + file);
    int64_t limit = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), limit);
    if (error == std::errc() && limit > 0) most = std::min(most, limit);
  }
  return most;
}

}  // namespace

int64_t MemoryLimit() {
  const int64_t machine =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return Least(Least(machine, "", "/memory.max"), "memory",
               "/memory.limit_in_bytes");
}

}  // namespace topk
