#include "server/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace topk {
namespace {

const std::filesystem::path kProcess = "/proc/self";

// Fields of /proc/self/stat, as proc(5) numbers them.
constexpr int kUserTicks = 14;
constexpr int kSystemTicks = 15;
constexpr int kThreads = 20;
constexpr int kStartTicks = 22;
constexpr int kVirtualBytes = 23;
constexpr int kResidentPages = 24;

// Returns a field of /proc/self/stat, 0 if it is missing.
double StatField(int field) {
  std::ifstream file(kProcess / "stat");
  std::string text;
  std::getline(file, text);
  // The second is the program's name, in brackets, and may hold anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  for (int at = 3; at <= field; ++at) rest >> word;
  return std::strtod(word.c_str(), nullptr);
}

double Seconds(double ticks) {
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator at(kProcess / "fd", error);
  double count = 0;
  for (; !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // without the one that is read here
}

double MaxFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

double Bytes(double pages) {
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

double AnonymousBytes() {
  std::ifstream file(kProcess / "statm");
  double size = 0;
  double resident = 0;
  double shared = 0;
  file >> size >> resident >> shared;
  return Bytes(resident - shared);
}

void AddProcessMetrics(MetricRegistry& registry) {
  registry.AddGauge("process_resident_memory_bytes",
                    "Resident memory size in bytes",
                    [] { return Bytes(StatField(kResidentPages)); });
  registry.AddGauge("process_virtual_memory_bytes",
                    "Virtual memory size in bytes",
                    [] { return StatField(kVirtualBytes); });
  registry.AddCounter(
      "process_cpu_seconds_total", "User and system CPU time spent in seconds",
      [] { return Seconds(StatField(kUserTicks) + StatField(kSystemTicks)); });
  registry.AddGauge("process_open_fds", "Number of open file descriptors",
                    OpenFiles);
  registry.AddGauge("process_max_fds",
                    "Maximum number of open file descriptors", MaxFiles);
  registry.AddGauge("process_threads", "Number of threads",
                    [] { return StatField(kThreads); });
  const double start = BootTime() + Seconds(StatField(kStartTicks));
  registry.AddGauge("process_start_time_seconds",
                    "Start time of the process since the epoch in seconds",
                    [start] { return start; });
}

}  // namespace topk
