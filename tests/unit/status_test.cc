#include "topk/status.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

TEST(ResultDeathTest, MadeOfAnOkStatusAborts) {
  EXPECT_DEATH({ const Result<int> result = Status(); }, "");
}

}  // namespace
}  // namespace topk
