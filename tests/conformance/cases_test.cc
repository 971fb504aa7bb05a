// Runs each case in tests/conformance/cases along every path through the core.
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

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
  const Expectation oracle = Oracle(c.request);
  ASSERT_TRUE(oracle.is_known || c.values || !c.code.empty())
      << "the oracle does not know the dialect: list the expected elements";
  Random random(1);
  for (const Outcome& outcome : Ways().Run(c.request, random)) {
    SCOPED_TRACE(outcome.path);
    if (!c.code.empty()) {
      ASSERT_FALSE(outcome.response.ok()) << "accepted";
      const Status& status = outcome.response.status();
      EXPECT_EQ(CodeName(status.code), c.code) << status.message;
      EXPECT_EQ(status.field, c.field) << status.message;
      EXPECT_EQ(status.reason, c.reason) << status.message;
      EXPECT_TRUE(!oracle.is_known ||
                  Allows(oracle, static_cast<int>(status.code), c.field))
          << "the oracle finds no such fault";
      EXPECT_FALSE(status.message.empty());
      continue;
    }
    ASSERT_TRUE(outcome.response.ok()) << outcome.response.status().message;
    if (oracle.is_known) {
      ASSERT_TRUE(oracle.violations.empty()) << oracle.violations[0].field;
      EXPECT_EQ(Comparable(*outcome.response), Comparable(oracle.response));
    }
    if (c.values) {
      EXPECT_EQ(outcome.response->values().data(), *c.values);
      EXPECT_EQ(outcome.response->indices().data(), *c.indices);
    }
  }
  EXPECT_TRUE(!oracle.is_known || c.code.empty() == oracle.violations.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Cases, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return param.param.name; });

TEST(CaseFile, EveryVersionHasAcceptedAndRejectedCases) {
  std::set<std::pair<int, int>> answered;
  std::set<std::pair<int, int>> refused;
  for (const Case& c : AllCases()) {
    (c.code.empty() ? answered : refused)
        .emplace(c.request.spec().dialect(), c.request.spec().version());
  }
  const v1::Capabilities served = Engine({1, {}}).GetCapabilities();
  for (const v1::OperatorCapability& row : served.operators()) {
    const std::pair<int, int> spec(row.spec().dialect(), row.spec().version());
    EXPECT_TRUE(answered.count(spec)) << row.name();
    EXPECT_TRUE(refused.count(spec)) << row.name();
  }
}

TEST(CaseFile, RejectsInvalidLines) {
  const std::string good =
      "ok | onnx 11 | u8 [2] | onnx { k { value: 1 } } | 1 2 | 2 ; 1";
  EXPECT_EQ(ParseCase(good, "here").name, "ok");
  for (const auto& [part, bad] :
       {std::pair("ok", "o k"), std::pair("11", ""), std::pair("11", "11 11"),
        std::pair("onnx", "torch"), std::pair("[2]", "2"),
        std::pair("[2]", "[x]"), std::pair("u8", "f33"),
        std::pair("value", "m"), std::pair("1 2 |", "1 256 |"),
        std::pair("1 2 |", "1 b |"), std::pair("1 2 |", "1 1.5 |"),
        std::pair("1 2 |", "zeros 2 |"), std::pair("1 2 |", "random |"),
        std::pair("2 ; 1", "Oracle"), std::pair("2 ; 1", "2 ; 1 ; 0"),
        std::pair("2 ; 1", "INVALID onnx.k K"), std::pair("| 2 ; 1", "")}) {
    std::string line = good;
    line.replace(line.find(part), std::string(part).size(), bad);
    EXPECT_THROW(ParseCase(line, "here"), std::runtime_error) << line;
  }
}

}  // namespace
}  // namespace topk::testing
