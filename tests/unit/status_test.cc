// Errors as values, and the small arithmetic and text under them.
#include "core/base/status.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(Status, IsOkByDefault) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(CodeName(Status().code), "OK");
}

TEST(Status, CodesHaveTheNumbersAndNamesOfGrpc) {
  const std::pair<int, const char*> codes[] = {{0, "OK"},
                                               {1, "CANCELLED"},
                                               {2, "UNKNOWN"},
                                               {3, "INVALID_ARGUMENT"},
                                               {4, "DEADLINE_EXCEEDED"},
                                               {5, "NOT_FOUND"},
                                               {6, "ALREADY_EXISTS"},
                                               {7, "PERMISSION_DENIED"},
                                               {8, "RESOURCE_EXHAUSTED"},
                                               {9, "FAILED_PRECONDITION"},
                                               {12, "UNIMPLEMENTED"},
                                               {13, "INTERNAL"},
                                               {14, "UNAVAILABLE"},
                                               {16, "UNAUTHENTICATED"}};
  for (const auto& [number, name] : codes) {
    EXPECT_EQ(CodeName(static_cast<Code>(number)), name);
  }
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "UNKNOWN");
}

TEST(Status, HasItsReasonFieldAndMessage) {
  const auto expect = [](const Status& status, int code) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(static_cast<int>(status.code), code);
    EXPECT_EQ(status.reason, "REASON");
    EXPECT_EQ(status.field, "a.field");
    EXPECT_EQ(status.message, "words");
  };
  expect(InvalidArgument("REASON", "a.field", "words"), 3);
  expect(ResourceExhausted("REASON", "a.field", "words"), 8);
  expect(Unimplemented("REASON", "a.field", "words"), 12);
}

TEST(Result, HoldsAValue) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> out = *std::move(result);
  EXPECT_EQ(*out, 7);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = InvalidArgument("R", "f", "m");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().reason, "R");
}

TEST(ResultDeathTest, MadeOfAnOkStatusAborts) {
  EXPECT_DEATH({ const Result<int> result = Status(); }, "");
}

TEST(Checked, MultiplyAndAddReportOverflow) {
  int64_t out = 0;
  EXPECT_TRUE(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31, &out));
  EXPECT_EQ(out, int64_t{1} << 62);
  EXPECT_FALSE(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 31, &out));
  EXPECT_FALSE(CheckedMultiply(kMin, -1, &out));
  EXPECT_TRUE(CheckedAdd(kMax - 1, 1, &out));
  EXPECT_EQ(out, kMax);
  EXPECT_FALSE(CheckedAdd(kMax, 1, &out));
  EXPECT_FALSE(CheckedAdd(kMin, -1, &out));
}

TEST(Checked, RoundsUpToFour) {
  int64_t out = 0;
  for (int64_t bytes = 0; bytes < 100; ++bytes) {
    ASSERT_TRUE(CheckedRoundUp4(bytes, &out));
    EXPECT_EQ(out, (bytes + 3) / 4 * 4);
  }
  EXPECT_TRUE(CheckedRoundUp4(kMax - 3, &out));
  EXPECT_EQ(out, kMax - 3);
  EXPECT_FALSE(CheckedRoundUp4(kMax - 2, &out));
}

TEST(StrCat, ConcatenatesTextsAndIntegers) {
  EXPECT_EQ(StrCat(), "");
  EXPECT_EQ(StrCat("k = ", 7, " of ", kMin, std::string("!")),
            "k = 7 of -9223372036854775808!");
}

}  // namespace
}  // namespace topk
