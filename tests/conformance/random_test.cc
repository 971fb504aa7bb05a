// Compares random requests, valid and invalid, with the oracle.
#include <gtest/gtest.h>

#include "tests/conformance/run_everywhere.h"
#include "tests/support/compute.h"
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
    const Expectation oracle = Oracle(request);
    ASSERT_TRUE(oracle.violations.empty()) << oracle.violations[0].field << "\n"
                                           << request.DebugString();
    const std::string expected = Comparable(oracle.response);
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
          << oracle.response.DebugString();
    }
  }
}

TEST(Random, InvalidRequestsAreRejectedByARuleThatTheyBreak) {
  Random random(Seed(20261122));
  // Small limits, so that a corrupted size cannot exhaust the oracle's memory.
  const OracleLimits limits = {1 << 20, 1 << 24};
  const Engine engine({1, {limits.max_elements, limits.max_output_bytes}});
  int refused = 0;
  for (int i = 0; i < 50000; ++i) {
    v1::TopKRequest request = RandomRequest(random);
    for (int64_t n = Pick(random, 1, 3); n > 0; --n) Corrupt(random, request);
    const Result<v1::TopKResponse> outcome = Compute(engine, request);
    const Expectation oracle = Oracle(request, limits);
    if (outcome.ok()) {
      ASSERT_TRUE(oracle.violations.empty())
          << oracle.violations[0].field << "\n"
          << request.DebugString();
      ASSERT_EQ(Comparable(*outcome), Comparable(oracle.response));
      continue;
    }
    ++refused;
    const Status& status = outcome.status();
    std::string broken;
    for (const Violation& violation : oracle.violations) {
      broken += " " + violation.field;
    }
    ASSERT_TRUE(Allows(oracle, static_cast<int>(status.code), status.field))
        << status.field << ": " << status.message << "\nbroken:" << broken
        << "\n"
        << request.DebugString();
    EXPECT_FALSE(status.reason.empty());
    EXPECT_FALSE(status.message.empty());
  }
  EXPECT_GT(refused, 20000);
}

}  // namespace
}  // namespace topk::testing
