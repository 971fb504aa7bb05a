// For each shape, compares the times of all algorithms with the time of the
// chosen algorithm. The constants for this choice come from this data.
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/cpu_backend.h"
#include "tests/bench/modes.h"

namespace topk::bench {
namespace {

using cpu::Algorithm;

constexpr Algorithm kAlgorithms[] = {
    Algorithm::kShortRows,
    Algorithm::kScan,
    Algorithm::kSort,
    Algorithm::kColumns,
};

// Runs at least 5 times and for 20 ms. Returns the minimum in microseconds.
double Microseconds(const Plan& plan, const cpu::Schedule& schedule,
                    const cpu::InstructionSet& set,
                    const std::vector<std::byte>& data, Answer& answer) {
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  const auto begin = Clock::now();
  for (int runs = 0;
       runs < 5 || Clock::now() - begin < std::chrono::milliseconds(20);
       ++runs) {
    const auto start = Clock::now();
    cpu::RunSchedule(plan, schedule, set, data.data(), answer.outputs());
    best = std::min(
        best, std::chrono::duration<double, std::micro>(Clock::now() - start)
                  .count());
  }
  return best;
}

}  // namespace

int MeasureAlgorithms(int threads) {
  const cpu::InstructionSet set = cpu::SupportedInstructionSets().front();
  std::cout << "microseconds of one run, " << threads << " thread(s), "
            << set.name << "; * is what is chosen\n"
            << std::left << std::setw(34) << "type shape axis k";
  for (const Algorithm algorithm : kAlgorithms) {
    std::cout << std::right << std::setw(14)
              << NameOf(cpu::Schedule{.algorithm = algorithm});
  }
  std::cout << std::setw(14) << "chosen/best\n";
  double worst = 1;
  for (const char* type : {"u8", "f16", "f32", "i64"}) {
    for (const auto& [rows, n, inner] :
         std::vector<std::array<int64_t, 3>>{{4096, 64, 1},
                                             {1024, 256, 1},
                                             {256, 1024, 1},
                                             {64, 4096, 1},
                                             {16, 16384, 1},
                                             {2, 262144, 1},
                                             {1, 4096, 3},
                                             {1, 4096, 64},
                                             {1, 256, 1024}}) {
      for (int64_t k : {int64_t{1}, int64_t{8}, int64_t{16}, int64_t{32},
                        n / 16, n / 4, n / 2, n * 3 / 4, n}) {
        if (k < 1) continue;
        Workload workload;
        workload.request.attributes = "onnx";
        workload.request.dtype = FindDType(type)->type;
        workload.request.shape = {rows, n, inner};
        workload.request.axis = 1;
        workload.request.k = k;
        workload.data = "normal";
        const Plan plan = workload.plan();
        const std::vector<std::byte> data = MakeData(workload, 1);
        Answer answer(plan);
        const Algorithm chosen = cpu::Choose(plan, threads).algorithm;
        std::cout << std::left << std::setw(34)
                  << std::string(type) + " [" + std::to_string(rows) + ", " +
                         std::to_string(n) + ", " + std::to_string(inner) +
                         "] 1 " + std::to_string(k)
                  << std::right << std::fixed << std::setprecision(1);
        double best = 1e18;
        double of_chosen = 0;
        for (const Algorithm algorithm : kAlgorithms) {
          if (!CanRun(algorithm, plan)) {
            std::cout << std::setw(14) << "-";
            continue;
          }
          const double time = Microseconds(
              plan, cpu::Cut(algorithm, plan, threads), set, data, answer);
          best = std::min(best, time);
          if (algorithm == chosen) of_chosen = time;
          std::cout << std::setw(13) << time
                    << (algorithm == chosen ? '*' : ' ');
        }
        worst = std::max(worst, of_chosen / best);
        std::cout << std::setw(12) << std::setprecision(2) << of_chosen / best
                  << std::endl;
      }
    }
  }
  std::cout << "at worst " << worst << " times the best\n";
  return 0;
}

}  // namespace topk::bench
