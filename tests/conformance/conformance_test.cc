// Runs each case in tests/conformance/cases, and random requests, along every
// path through the core. fuzz/request_fuzz.cc has invalid random requests.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/conformance/run_everywhere.h"
#include "tests/support/case_file.h"
#include "tests/support/oracle.h"

namespace topk::testing {

void PrintTo(const Case& c, std::ostream* out) { *out << c.where; }

namespace {

class Cases : public ::testing::TestWithParam<Case> {
 protected:
  static const Everywhere& Ways() {
    static const Everywhere* const ways = new Everywhere;
    return *ways;
  }
};

TEST_P(Cases, Hold) {
  const Case& c = GetParam();
  SCOPED_TRACE(c.where);
  const std::string expected =
      c.code.empty() ? Comparable(Oracle(c.request)) : "";
  Random random(1);
  for (const Outcome& outcome : Ways().Run(c.request, random)) {
    SCOPED_TRACE(outcome.path);
    if (!c.code.empty()) {
      ASSERT_FALSE(outcome.response.ok()) << "accepted";
      const Status& status = outcome.response.status();
      EXPECT_EQ(CodeName(status.code), c.code) << status.message;
      EXPECT_EQ(status.field, c.field) << status.message;
      EXPECT_EQ(status.reason, c.reason) << status.message;
      EXPECT_FALSE(status.message.empty());
      if (!c.message.empty()) {
        EXPECT_EQ(status.message, c.message);
      }
      continue;
    }
    ASSERT_TRUE(outcome.response.ok()) << outcome.response.status().message;
    EXPECT_EQ(Comparable(*outcome.response), expected);
    if (c.values) {
      EXPECT_EQ(outcome.response->values().data(), *c.values);
      EXPECT_EQ(outcome.response->indices().data(), *c.indices);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Cases, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return param.param.name; });

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
