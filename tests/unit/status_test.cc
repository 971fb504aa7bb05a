#include "core/base/status.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

TEST(Status, CodesHaveTheNumbersAndNamesOfGrpc) {
  const char* names[] = {"OK",
                         "CANCELLED",
                         "UNKNOWN",
                         "INVALID_ARGUMENT",
                         "DEADLINE_EXCEEDED",
                         "NOT_FOUND",
                         "ALREADY_EXISTS",
                         "PERMISSION_DENIED",
                         "RESOURCE_EXHAUSTED",
                         "FAILED_PRECONDITION",
                         nullptr,
                         nullptr,
                         "UNIMPLEMENTED",
                         "INTERNAL",
                         "UNAVAILABLE",
                         nullptr,
                         "UNAUTHENTICATED"};
  for (size_t code = 0; code < std::size(names); ++code) {
    if (names[code] == nullptr) continue;  // the server does not use this code
    EXPECT_EQ(CodeName(static_cast<Code>(code)), names[code]);
  }
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "UNKNOWN");
}

TEST(ResultDeathTest, MadeOfAnOkStatusAborts) {
  EXPECT_DEATH({ const Result<int> result = Status(); }, "");
}

}  // namespace
}  // namespace topk
