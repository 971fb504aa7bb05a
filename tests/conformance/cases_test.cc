// Every case of tests/cases, one test each, on every way through the core.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/conformance/run_everywhere.h"
#include "tests/support/case_file.h"
#include "tests/support/oracle.h"

namespace topk::testing {
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
  // A limit is this process's, not the operator's: the oracle knows none.
  const bool limited = c.code == "RESOURCE_EXHAUSTED";
  const Expectation oracle = limited ? Expectation() : Oracle(c.request);
  Random random(1);
  for (const Outcome& outcome : Ways().Run(c.request, random)) {
    SCOPED_TRACE(outcome.way);
    if (!c.code.empty()) {
      ASSERT_FALSE(outcome.response.ok()) << "accepted";
      const Status& status = outcome.response.status();
      EXPECT_EQ(CodeName(status.code), c.code) << status.message;
      EXPECT_EQ(status.field, c.field) << status.message;
      EXPECT_EQ(status.reason, c.reason) << status.message;
      EXPECT_FALSE(status.message.empty());
      continue;
    }
    ASSERT_TRUE(outcome.response.ok()) << outcome.response.status().message;
    ASSERT_TRUE(oracle.violations.empty()) << oracle.violations[0].field;
    EXPECT_EQ(Comparable(*outcome.response), Comparable(oracle.response));
    if (c.values) {
      EXPECT_EQ(outcome.response->values().data(), *c.values);
      EXPECT_EQ(outcome.response->indices().data(), *c.indices);
    }
  }
  if (!limited) {
    EXPECT_EQ(c.code.empty(), oracle.violations.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Cases, ::testing::ValuesIn(AllCases()),
                         [](const auto& param) { return param.param.name; });

TEST(CaseFile, RefusesWhatItCannotRead) {
  const std::string good =
      "ok | onnx 11 | f32 [2] | onnx { k { value: 1 } } | 1 2 | 2 ; 1";
  EXPECT_EQ(ParseCase(good, "here").name, "ok");
  for (const char* bad : {
           "",
           "name | onnx 11 | f32 [2] | onnx {} | 1 2",
           "na me | onnx 11 | f32 [2] | onnx {} | 1 2 | oracle",
           "name | onnx | f32 [2] | onnx {} | 1 2 | oracle",
           "name | torch 11 | f32 [2] | onnx {} | 1 2 | oracle",
           "name | onnx 11 | f32 2 | onnx {} | 1 2 | oracle",
           "name | onnx 11 | f33 [2] | onnx {} | 1 2 | oracle",
           "name | onnx 11 | f32 [2] | onnx { m: 1 } | 1 2 | oracle",
           "name | onnx 11 | f32 [2] | onnx {} | 1 b | oracle",
           "name | onnx 11 | f32 [2] | onnx {} | 1 2 | INVALID_ARGUMENT",
       }) {
    EXPECT_THROW(ParseCase(bad, "here"), std::runtime_error) << bad;
  }
}

}  // namespace
}  // namespace topk::testing
