#include "server/telemetry/process_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "core/common/process_limits.h"

namespace topk {
namespace {

// Returns a field of /proc/self/stat by its number in proc(5); 0 if missing.
double StatField(int field) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // Skip field 2, the name of the program in parentheses. It can contain ")".
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  for (int at = 3; at <= field; ++at) rest >> word;
  return std::strtod(word.c_str(), nullptr);
}

double OpenFiles() {
  std::error_code error;
  const auto files = std::ranges::distance(
      std::filesystem::directory_iterator("/proc/self/fd", error));
  // Exclude the descriptor that reads this directory.
  return static_cast<double>(std::max<int64_t>(files - 1, 0));
}

}  // namespace

void AddProcessMetrics(MetricRegistry& registry) {
  registry.AddGauge(
      "process_resident_memory_bytes", "Resident memory size in bytes", [] {
        return StatField(24) * static_cast<double>(sysconf(_SC_PAGESIZE));
      });
  registry.AddGauge("process_virtual_memory_bytes",
                    "Virtual memory size in bytes",
                    [] { return StatField(23); });
  registry.AddCounter("process_cpu_seconds_total",
                      "User and system CPU time spent in seconds", [] {
                        return (StatField(14) + StatField(15)) /
                               static_cast<double>(sysconf(_SC_CLK_TCK));
                      });
  registry.AddGauge("process_open_fds", "Number of open file descriptors",
                    OpenFiles);
  registry.AddGauge("process_max_fds",
                    "Maximum number of open file descriptors",
                    [] { return static_cast<double>(DescriptorLimit()); });
  registry.AddGauge("process_threads", "Number of threads",
                    [] { return StatField(20); });
  registry.AddGauge("process_start_time_seconds",
                    "Start time of the process since the epoch in seconds",
                    [start = std::time(nullptr)] { return start; });
}

}  // namespace topk
