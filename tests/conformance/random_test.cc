// Compares random requests, valid and invalid, with the oracle.
#include <gtest/gtest.h>

#include "tests/conformance/run_everywhere.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"
#include "tests/support/quiet_protobuf.h"

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

TEST(Random, CorruptedRequestsAreRejectedOrHaveTheOraclesResults) {
  const QuietProtobuf quiet;
  Random random(Seed(20261122));
  // Small limits, so that a corrupted size cannot exhaust the oracle's memory.
  const Engine engine({1, {1 << 20, 1 << 24}});
  int rejected = 0;
  for (int i = 0; i < 50000; ++i) {
    v1::TopKRequest request = RandomRequest(random);
    for (int64_t n = Pick(random, 1, 3); n > 0; --n) Corrupt(random, request);
    const Result<v1::TopKResponse> outcome = Compute(engine, request);
    if (outcome.ok()) {
      ASSERT_EQ(Comparable(*outcome), Comparable(Oracle(request)))
          << request.DebugString();
      continue;
    }
    ++rejected;
    EXPECT_FALSE(outcome.status().field.empty());
    EXPECT_FALSE(outcome.status().reason.empty());
    EXPECT_FALSE(outcome.status().message.empty());
  }
  EXPECT_GT(rejected, 10000);
  EXPECT_LT(rejected, 48000);
}

}  // namespace
}  // namespace topk::testing
