// Compares random requests with the oracle. fuzz/request_fuzz.cc has invalid
// ones.
#include <gtest/gtest.h>

#include "tests/conformance/run_everywhere.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

// Each request takes about 50 paths. Sanitizers are ten times slower.
#ifdef TOPK_SANITIZED
constexpr int kRequests = 2500;
#else
constexpr int kRequests = 8000;
#endif

TEST(Random, RequestsHaveTheOraclesResults) {
  Random random(Seed(20261121));
  const Everywhere ways;
  for (int i = 0; i < kRequests; ++i) {
    const v1::TopKRequest request = RandomRequest(random);
    const v1::TopKResponse oracle = Oracle(request);
    const std::string expected = Comparable(oracle);
    std::vector<Outcome> outcomes = ways.Run(request, random);
    std::ranges::move(
        RunAlgorithms(request, static_cast<int>(Pick(random, 1, 4)),
                      random() % 2 == 0 ? 1 : cpu::kTaskNanoseconds),
        std::back_inserter(outcomes));
    for (const Outcome& outcome : outcomes) {
      ASSERT_TRUE(outcome.response.ok())
          << outcome.path << ": " << outcome.response.status().message << "\n"
          << request.DebugString();
      ASSERT_EQ(Comparable(*outcome.response), expected)
          << outcome.path << "\n"
          << request.DebugString() << outcome.response->DebugString()
          << oracle.DebugString();
    }
  }
}

}  // namespace
}  // namespace topk::testing
