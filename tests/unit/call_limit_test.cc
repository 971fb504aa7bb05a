#include "server/health/call_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace topk {
namespace {

using ::testing::HasSubstr;

TEST(CallLimit, GivesOneClientHalfOfAll) {
  CallLimit limit("test", 4);
  std::vector<CallLimit::Slot> slots;
  for (const char* client : {"a", "a", "b", "b"}) {
    auto slot = limit.Open(client);
    ASSERT_TRUE(slot.ok()) << slot.status().message;
    slots.push_back(*std::move(slot));
    if (slots.size() != 2) continue;
    const Status third = limit.Open("a").status();
    EXPECT_EQ(third.code, Code::kResourceExhausted);
    EXPECT_THAT(third.message,
                HasSubstr("test calls of one client address (limit 2)"));
  }
  const Status fifth = limit.Open("c").status();
  EXPECT_EQ(fifth.code, Code::kResourceExhausted);
  EXPECT_THAT(fifth.message, HasSubstr("test calls (limit 4)"));
}

TEST(CallLimit, CountsOpenCallsOnly) {
  CallLimit limit("test", 2);
  for (int i = 0; i < 5; ++i) {
    const auto slot = limit.Open("a");
    EXPECT_TRUE(slot.ok());
    EXPECT_FALSE(limit.Open("a").ok());
  }
  // A rejected call of another client leaves no entry behind.
  const auto slot = limit.Open("a");
  const auto other = limit.Open("b");
  EXPECT_TRUE(other.ok());
  EXPECT_FALSE(limit.Open("c").ok());
}

}  // namespace
}  // namespace topk
