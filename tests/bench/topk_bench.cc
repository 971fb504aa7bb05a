// topk_bench: measures the CPU kernels in process, without a server.
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "core/backends/registry.h"
#include "tests/bench/modes.h"
#include "tests/bench/roofline.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

void RunWorkload(benchmark::State& state, const Workload& workload,
                 int threads) {
  const Plan plan = workload.plan();
  const std::vector<std::byte> data = MakeData(workload, 1);
  const auto backends = MakeBackends(threads);
  const auto prepared = backends.back()->Prepare(plan, Arrival::kWhole);
  Answer answer(plan);
  tbb::task_arena arena(threads);
  Execution execution;
  // Alternate reading and running, so that both see the same machine load.
  int64_t best_read = INT64_MAX;
  int64_t best_run = INT64_MAX;
  for (auto _ : state) {
    best_read = std::min(best_read, TimeToRead(data, arena));
    const auto start = std::chrono::steady_clock::now();
    execution = testing::RunWhole(*prepared, data, answer.outputs());
    const int64_t run =
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start)
            .count();
    best_run = std::min(best_run, run);
    state.SetIterationTime(static_cast<double>(run) * 1e-9);
  }
  state.SetBytesProcessed(state.iterations() * plan.input.bytes);
  state.SetLabel(std::string(execution.kernel) + " " +
                 std::string(execution.instruction_set));
  state.counters["min_us"] = static_cast<double>(best_run) / 1e3;
  state.counters["read_us"] = static_cast<double>(best_read) / 1e3;
  state.counters["roofline_fraction"] =
      static_cast<double>(best_read) / static_cast<double>(best_run);
}

int Main(int argc, char** argv) {
  int threads = 1;
  bool is_worker = false;
  std::string file = TOPK_SOURCE_DIR "/tests/bench/workloads.cases";
  CLI::App app("The CPU kernels, in process, without a server", "topk_bench");
  app.add_option("--threads", threads)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--worker", is_worker, "Run the commands of peers.py");
  app.add_option("--workloads", file)->capture_default_str();
  app.allow_extras();
  app.footer(
      "--benchmark_... are Google Benchmark's own. TOPK_INSTRUCTION_SET "
      "forces an instruction set.");
  CLI11_PARSE(app, argc, argv);
  if (const Status s = CheckEnvironment(); !s.ok()) {
    throw std::runtime_error(s.message);
  }
  if (is_worker) return Work(threads);
  const std::vector<Workload> workloads = ReadWorkloads(file);
  for (const Workload& workload : workloads) {
    benchmark::RegisterBenchmark(workload.name.c_str(), RunWorkload, workload,
                                 threads)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  std::vector<std::string> extras = app.remaining();
  std::vector<char*> rest = {argv[0]};
  for (std::string& extra : extras) rest.push_back(extra.data());
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace topk::bench

int main(int argc, char** argv) {
  try {
    return topk::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "topk_bench: " << error.what() << "\n";
    return 2;
  }
}
