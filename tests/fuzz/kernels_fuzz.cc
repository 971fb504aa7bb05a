// Every applicable algorithm returns the oracle's result, on every instruction
// set of the machine and for any number of threads.
#include <tbb/task_arena.h>

#include <span>

#include "core/answer.h"
#include "core/backends/cpu/run_schedule.h"
#include "core/dialects/registry.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

using cpu::Algorithm;

constexpr Algorithm kAlgorithms[] = {
    Algorithm::kShortRows,
    Algorithm::kScan,
    Algorithm::kSort,
    Algorithm::kColumns,
};

void Check(Input& input) {
  static tbb::task_arena arena(3);
  const int threads = static_cast<int>(1 + input.Below(4));
  const double task = input.Flag() ? 1 : cpu::kTaskNanoseconds;
  Random random(input.Rest());
  const v1::TopKRequest request = RandomRequest(random);
  const Result<Plan> plan = Lower(request, Limits());
  Require(plan.ok(), "the request is right");
  if (plan->slices() == 0) return;  // nothing to run
  const std::string expected = Comparable(Oracle(request).response);
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    for (const Algorithm algorithm : kAlgorithms) {
      if (!CanRun(algorithm, *plan)) continue;
      const cpu::Schedule schedule = cpu::Cut(algorithm, *plan, threads, task);
      v1::TopKResponse response;
      response.set_request_id(request.request_id());
      const Outputs outputs = PrepareOutputs(*plan, response);
      const auto run = [&] {
        cpu::RunSchedule(
            *plan, schedule, set,
            reinterpret_cast<const std::byte*>(request.tensor().data().data()),
            outputs);
      };
      schedule.run_inline ? run() : arena.execute(run);
      Require(Comparable(response) == expected,
              std::string(NameOf(schedule)) + " on " + std::string(set.name) +
                  " gives the oracle's answer");
    }
  }
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
