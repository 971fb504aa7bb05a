#include "server/admission/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "core/common/process_limits.h"

namespace topk {
namespace {

// Reads `file` in each cgroup folder of `controller`. Returns the minimum of
// `limit` and the numbers found. Ignores text that is not a number, e.g. "max".
int64_t MinLimit(int64_t limit, const std::string& controller,
                 const char* file) {
  for (const std::string& folder : CgroupFolders(controller)) {
    const std::string text = ReadKernelFile(folder + file);
    int64_t number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && number > 0) limit = std::min(limit, number);
  }
  return limit;
}

}  // namespace

int64_t MemoryLimit(int instances) {
  const int64_t machine =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return MinLimit(MinLimit(machine, "", "/memory.max"), "memory",
                  "/memory.limit_in_bytes") /
         instances;
}

int64_t DefaultInflightBytes(int64_t memory) {
  return std::max((memory - kReservedMemory) / 4, int64_t{12} << 20);
}

int64_t DefaultReceiveMemory(int64_t memory) {
  return std::max((memory - kReservedMemory) / 5 * 3, int64_t{16} << 20);
}

int SocketBufferBytes(int64_t memory) {
  if (memory >= kSmallMemory) return 0;
  return static_cast<int>(  // 208 KiB: the maximum that Linux allows by default
      std::clamp(memory / 4096, int64_t{64} << 10, int64_t{208} << 10));
}

int64_t DefaultMaxCalls(int64_t memory) {
  return std::clamp<int64_t>(memory / (int64_t{512} << 10), 2, 4096);
}

}  // namespace topk
