// Runs the CPU kernels for peers.py. Commands and responses are lines of JSON:
//
//   {"do": "load", "workload": LINE OF workloads.cases, "data": FILE}
//       -> {"kernel": ..., "instruction_set": ...}
//   {"do": "time", "seconds": S, "runs": N}
//       -> {"min_us": ..., "runs": ...}
//   {"do": "read", "seconds": S, "runs": N}
//       -> the same, for reading the tensor
//   {"do": "answer", "values": FILE, "indices": FILE}
//       -> {}
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/backends/registry.h"
#include "tests/bench/modes.h"
#include "tests/bench/roofline.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

using nlohmann::json;

class Worker {
 public:
  explicit Worker(int threads)
      : backends_(MakeBackends(threads)), arena_(threads) {}

  json Do(const json& order) {
    const std::string what = order.at("do");
    if (what == "load") return Load(order);
    if (plan_.empty()) throw std::runtime_error("nothing is loaded");
    if (what == "time") {
      return Time(order, [&] {
        const auto start = std::chrono::steady_clock::now();
        testing::RunWhole(*prepared_, data_, answer_[0].outputs());
        return std::chrono::nanoseconds(std::chrono::steady_clock::now() -
                                        start)
            .count();
      });
    }
    if (what == "read") {
      return Time(order, [&] { return TimeToRead(data_, arena_); });
    }
    if (what != "answer") throw std::runtime_error("cannot " + what);
    Save(order.at("values"), answer_[0].values);
    Save(order.at("indices"), answer_[0].indices);
    return json::object();
  }

 private:
  json Load(const json& order) {
    const std::string& line = order.at("workload");
    plan_ = {ParseWorkload(line).plan()};
    answer_.assign(1, Answer(plan_[0]));
    std::ifstream in(std::string(order.at("data")), std::ios::binary);
    data_.resize(static_cast<size_t>(plan_[0].input.bytes));
    if (!in.read(reinterpret_cast<char*>(data_.data()),
                 static_cast<std::streamsize>(data_.size()))) {
      throw std::runtime_error("the data is too short");
    }
    prepared_ = backends_.back()->Prepare(plan_[0], Arrival::kWhole);
    const Execution execution =
        testing::RunWhole(*prepared_, data_, answer_[0].outputs());
    return {{"kernel", execution.kernel},
            {"instruction_set", execution.instruction_set}};
  }

  static json Time(const json& order, const std::function<int64_t()>& run) {
    const double seconds = order.at("seconds");
    const size_t runs = order.at("runs");
    std::vector<double> times;
    const auto begin = std::chrono::steady_clock::now();
    while (times.size() < runs || std::chrono::duration<double>(
                                      std::chrono::steady_clock::now() - begin)
                                          .count() < seconds) {
      times.push_back(static_cast<double>(run()) / 1e3);
    }
    return {{"min_us", *std::min_element(times.begin(), times.end())},
            {"runs", times.size()}};
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
  std::vector<Plan> plan_;  // empty until a workload is loaded
  std::unique_ptr<const PreparedPlan> prepared_;
  std::vector<Answer> answer_;
  std::vector<std::byte> data_;
};

}  // namespace

int Work(int threads) {
  Worker worker(threads);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << worker.Do(json::parse(line)).dump() << std::endl;
  }
  return 0;
}

}  // namespace topk::bench
