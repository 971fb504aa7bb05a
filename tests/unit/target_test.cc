// Texts of errors in server addresses. tests/clients/cpp/answer_cases.json has
// the addresses.
#include "core/security/target.h"

#include <gtest/gtest.h>

#include <string>

namespace topk {
namespace {

TEST(Target, QuotesWhatItRejects) {
  EXPECT_EQ(TargetError("a\x1b[2J:1x" + std::string(1000, 'y')).substr(0, 12),
            "\"a?[2J:1xyyy");
  EXPECT_LT(TargetError(std::string(100'000, 'y')).size(), 200u);
}

}  // namespace
}  // namespace topk
