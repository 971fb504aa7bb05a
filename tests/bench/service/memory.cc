#include <chrono>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/paths.h"
#include "tests/bench/service/wire.h"

namespace topk::bench {
namespace {

// Returns a field of the kernel's account of a process, in MiB.
double MemoryOf(int process, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::string word;
  while (status >> word) {
    double kibibytes = 0;
    if (word == field + ":" && status >> kibibytes) return kibibytes / 1024;
  }
  throw std::runtime_error("no " + field + " of a server");
}

// The peak is the kernel's, so that none is missed. It includes the memory that
// a new server allocates at its first request.
void MeasureLongStream(const Run& run) {
  const int64_t pieces = run.quick ? 64 : 4096;
  const int process = run.processes.at("long");
  const QuestionPtr question = MakeQuestion(kMiB, 100, pieces);
  const auto caller = RawStream(Connect(run.servers.at("long")), question);
  const double before = MemoryOf(process, "VmRSS");
  std::vector<double> uncounted;
  const double seconds = caller->Run(0, uncounted);
  const std::string size = run.quick ? "64 MiB" : "4 GiB";
  const auto bytes = static_cast<double>(question->bytes());
  Print({{"path", "memory"},
         {"what", "stream of " + size},
         {"rss_growth_mib", Rounded(MemoryOf(process, "VmHWM") - before)},
         {"gbps", Rounded(bytes / seconds / 1e9)}});
}

// Returns the resident memory of a process once it is idle: unchanged for 2 s,
// or after 10 s.
double IdleMemoryOf(int process) {
  constexpr auto kStep = std::chrono::milliseconds(100);
  constexpr int kStill = 20;
  constexpr int kMax = 100;
  double before = 0;
  int still = 0;
  for (int i = 0; i < kMax && still < kStill; ++i) {
    const double now = MemoryOf(process, "VmRSS");
    still = now == before ? still + 1 : 0;
    before = now;
    std::this_thread::sleep_for(kStep);
  }
  return before;
}

// The mixed load: callers of every size on one channel.
class Mix {
 public:
  Mix(const std::string& server, int sizes) : channel_(Connect(server)) {
    for (int i = 0; i < sizes; ++i) {
      const QuestionPtr question = MakeQuestion(int64_t{1024} << i);
      callers_.push_back(RawUnary(channel_, question, RequestBytes(*question)));
      callers_.push_back(RawStream(channel_, question));
      callers_.push_back(RawMany(channel_, question));
    }
  }

  void Call() {
    std::uniform_int_distribution<size_t> any(0, callers_.size() - 1);
    std::vector<double> uncounted;
    callers_[any(random_)]->Run(0, uncounted);
  }

 private:
  const ChannelPtr channel_;
  std::vector<CallerPtr> callers_;
  std::minstd_rand random_;
};

void MeasureMixed(const Run& run) {
  const int calls = run.quick ? 200 : 1000;
  const int process = run.processes.at("mixed");
  Mix mix(run.servers.at("mixed"), 15);  // 1 KiB .. 16 MiB
  for (int i = 0; i < 100; ++i) mix.Call();
  const double early = IdleMemoryOf(process);
  for (int i = 100; i < calls; ++i) mix.Call();
  const double late = IdleMemoryOf(process);
  Print({{"path", "memory"},
         {"what", std::to_string(calls) + " mixed"},
         {"rss_after_100_mib", Rounded(early)},
         {"rss_after_" + std::to_string(calls) + "_mib", Rounded(late)},
         {"ratio", Rounded(late / early)}});
}

}  // namespace

void MeasureMemory(const Run& run) {
  MeasureLongStream(run);
  MeasureMixed(run);
}

}  // namespace topk::bench
