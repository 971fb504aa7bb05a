#include <iomanip>
#include <iostream>

#include "core/backends/registry.h"
#include "tests/bench/modes.h"

namespace topk::bench {

int PrintSupport(const std::vector<Workload>& workloads, int threads) {
  const auto backends = MakeBackends(threads);
  for (const Workload& workload : workloads) {
    const Plan plan = workload.plan();
    std::cout << std::left << std::setw(16) << workload.name;
    for (const auto& backend : backends) {
      std::cout << "  " << backend->name() << " ";
      const auto prepared = backend->Prepare(plan);
      if (prepared.ok()) {
        std::cout << (*prepared)->kernel() << " " << backend->instruction_set();
      } else {
        std::cout << prepared.status().message;
      }
    }
    std::cout << "\n";
  }
  return 0;
}

}  // namespace topk::bench
