// topk_bench: measures the CPU kernels in process, without a server.
//
// With --worker, runs commands of peers.py. Commands and responses are lines of
// JSON:
//
//   {"do": "load", "workload": LINE OF workloads.cases, "data": FILE TO WRITE}
//       -> {"kernel": ..., "instruction_set": ...}
//   {"do": "time", "seconds": S, "runs": N}
//       -> {"min_us": ..., "runs": ...}
//   {"do": "read", "seconds": S, "runs": N}
//       -> the same, for reading the tensor
//   {"do": "answer", "values": FILE TO WRITE, "indices": FILE TO WRITE}
//       -> {}
#include <benchmark/benchmark.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backends/registry.h"
#include "tests/bench/workload.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

// Reads all bytes, four vectors at a time. The caller must use the result, or
// the compiler removes the loop.
uint64_t ReadAll(std::span<const std::byte> data) {
  // GCC and Clang compile operations on this type to SIMD instructions.
  typedef uint64_t Vector
      __attribute__((vector_size(16), aligned(1), may_alias));
  const auto* const begin = reinterpret_cast<const Vector*>(data.data());
  const Vector* const end = begin + data.size() / sizeof(Vector) / 4 * 4;
  Vector a = {}, b = {}, c = {}, d = {};
  for (const Vector* v = begin; v != end; v += 4) {
    a |= v[0];
    b |= v[1];
    c |= v[2];
    d |= v[3];
  }
  const Vector all = a | b | c | d;
  return all[0] | all[1];
}

// Reads the data once on the arena's threads. Returns the time in nanoseconds.
int64_t TimeToRead(std::span<const std::byte> data, tbb::task_arena& arena) {
  [[maybe_unused]] static volatile uint64_t sink = 0;
  const auto start = Clock::now();
  const auto pieces = static_cast<size_t>(arena.max_concurrency());
  if (pieces == 1 || data.size() < (size_t{1} << 19)) {
    sink = ReadAll(data);
  } else {
    arena.execute([&] {
      tbb::parallel_for(size_t{0}, pieces, [&](size_t p) {
        const size_t begin = p * data.size() / pieces;
        sink = ReadAll(
            data.subspan(begin, (p + 1) * data.size() / pieces - begin));
      });
    });
  }
  return NanosecondsSince(start);
}

class Worker {
 public:
  explicit Worker(int threads)
      : backends_(MakeBackends(threads)), arena_(threads) {}

  json Do(const json& order) {
    const std::string what = order.at("do");
    if (what == "load") return Load(order);
    if (!answer_) throw std::runtime_error("nothing is loaded");
    if (what == "answer") {
      Save(order.at("values"), answer_->values);
      Save(order.at("indices"), answer_->indices);
      return json::object();
    }
    if (what != "time" && what != "read") {
      throw std::runtime_error("cannot " + what);
    }
    const double seconds = order.at("seconds");
    const size_t runs = order.at("runs");
    std::vector<int64_t> times;
    for (const auto begin = Clock::now();
         times.size() < runs ||
         static_cast<double>(NanosecondsSince(begin)) < seconds * 1e9;) {
      const auto start = Clock::now();
      if (what == "time") {
        testing::RunWhole(*prepared_, data_, answer_->outputs());
        times.push_back(NanosecondsSince(start));
      } else {
        times.push_back(TimeToRead(data_, arena_));
      }
    }
    const int64_t least = *std::min_element(times.begin(), times.end());
    return {{"min_us", static_cast<double>(least) / 1e3},
            {"runs", times.size()}};
  }

 private:
  json Load(const json& order) {
    const Workload workload = ParseWorkload(order.at("workload"));
    plan_ = workload.plan();
    answer_.emplace(*plan_);
    data_ = MakeData(workload, 1);
    Save(order.at("data"), data_);
    prepared_ = backends_.back()->Prepare(*plan_, Arrival::kWhole);
    const Execution execution =
        testing::RunWhole(*prepared_, data_, answer_->outputs());
    return {{"kernel", execution.kernel},
            {"instruction_set", execution.instruction_set}};
  }

  static void Save(const std::string& path,
                   const std::vector<std::byte>& bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + path);
  }

  const std::vector<std::unique_ptr<Backend>> backends_;
  tbb::task_arena arena_;
  std::optional<Plan> plan_;
  std::unique_ptr<const PreparedPlan> prepared_;  // refers to plan_
  std::optional<Answer> answer_;
  std::vector<std::byte> data_;
};

void RunWorkload(benchmark::State& state, const Workload& workload,
                 int threads) {
  const Plan plan = workload.plan();
  const std::vector<std::byte> data = MakeData(workload, 1);
  const auto backends = MakeBackends(threads);
  const auto prepared = backends.back()->Prepare(plan, Arrival::kWhole);
  Answer answer(plan);
  Execution execution;
  int64_t best_run = INT64_MAX;
  for (auto _ : state) {
    const auto start = Clock::now();
    execution = testing::RunWhole(*prepared, data, answer.outputs());
    const int64_t run = NanosecondsSince(start);
    best_run = std::min(best_run, run);
    state.SetIterationTime(static_cast<double>(run) * 1e-9);
  }
  state.SetBytesProcessed(state.iterations() * plan.input.bytes);
  state.SetLabel(std::string(execution.kernel) + " " +
                 std::string(execution.instruction_set));
  state.counters["min_us"] = static_cast<double>(best_run) / 1e3;
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
  if (is_worker) {
    Worker worker(threads);
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << worker.Do(json::parse(line)).dump() << std::endl;
    }
    return 0;
  }
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
