// topk_bench: the CPU kernels, in process, without a server.
//
// usage: topk_bench [--threads=N] [--mode=MODE] [--workloads=FILE]
//                   [--benchmark_... of Google Benchmark]
//
// MODE: benchmark (the usual), with a read roofline measured beside each;
// support: what would run for each workload; algorithms: what the chooser's
// constants were taken from; worker: for peers.py.
//
// TOPK_INSTRUCTION_SET forces an instruction set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "core/backends/registry.h"
#include "tests/bench/modes.h"
#include "tests/bench/roofline.h"

namespace topk::bench {
namespace {

void RunWorkload(benchmark::State& state, const Workload& workload,
                 int threads) {
  const Plan plan = workload.plan();
  const std::vector<std::byte> data = MakeData(workload, 1);
  const auto backends = MakeBackends(threads);
  const Backend& backend = *backends.back();
  Answer answer(plan);
  tbb::task_arena arena(threads);
  Execution execution;
  // Read and run in turn, so that both meet the same machine.
  int64_t best_read = INT64_MAX;
  int64_t best_run = INT64_MAX;
  for (auto _ : state) {
    best_read = std::min(best_read, TimeToRead(data, arena));
    const auto start = std::chrono::steady_clock::now();
    execution = backend.Run(plan, data, answer.outputs());
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

// Returns the value of --name=value and takes it from the arguments, or
// `usual`.
std::string Take(int& argc, char** argv, const std::string& name,
                 const std::string& usual) {
  const std::string prefix = "--" + name + "=";
  std::string value = usual;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(prefix, 0) == 0) {
      value = argument.substr(prefix.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return value;
}

int Main(int argc, char** argv) {
  const int threads = std::stoi(Take(argc, argv, "threads", "1"));
  const std::string mode = Take(argc, argv, "mode", "benchmark");
  const std::string file = Take(argc, argv, "workloads",
                                TOPK_SOURCE_DIR "/tests/bench/workloads.cases");
  if (threads < 1) throw std::runtime_error("--threads must be at least 1");
  if (const Status s = CheckEnvironment(); !s.ok()) {
    throw std::runtime_error(s.message);
  }
  if (mode == "worker") return Work(threads);
  if (mode == "algorithms") return MeasureAlgorithms(threads);
  const std::vector<Workload> workloads = ReadWorkloads(file);
  if (mode == "support") return PrintSupport(workloads, threads);
  if (mode != "benchmark") throw std::runtime_error("no such mode: " + mode);
  for (const Workload& workload : workloads) {
    benchmark::RegisterBenchmark(workload.name.c_str(), RunWorkload, workload,
                                 threads)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
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
