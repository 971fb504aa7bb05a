// All applicable algorithms must return the oracle's result, on all instruction
// sets of the machine and for any number of threads.
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace topk::testing;
  Input input(data, size);
  const int threads = static_cast<int>(1 + input.Below(4));
  const double task = input.Flag() ? 1 : topk::cpu::kTaskNanoseconds;
  Random random(input.Rest());
  const auto request = RandomRequest(random);
  const std::string expected = Comparable(Oracle(request));
  for (const Outcome& outcome : RunAlgorithms(request, threads, task)) {
    Require(outcome.response.ok(), "the request is right");
    Require(Comparable(*outcome.response) == expected,
            outcome.path + " returns the oracle's result");
  }
  return 0;
}
