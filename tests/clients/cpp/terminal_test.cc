// Tests that text is wrapped to fit a terminal. cli_test.py tests tables.
#include "client/cli/terminal.h"

#include <gtest/gtest.h>

namespace topk::cli {
namespace {

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(Wrapped("one two three", 0, 2), "one two three");
  EXPECT_EQ(Wrapped("one two three", 13, 0), "one two three");
  EXPECT_EQ(Wrapped("one two three", 12, 0), "one two\nthree");
  EXPECT_EQ(Wrapped("one two three", 7, 2), "one\n  two\n  three");
  EXPECT_EQ(Wrapped("unbreakable", 4, 0), "unbreakable");
  EXPECT_EQ(Wrapped("unbreakable word", 4, 0), "unbreakable\nword");
  EXPECT_EQ(Wrapped("", 4, 8), "");
}

}  // namespace
}  // namespace topk::cli
