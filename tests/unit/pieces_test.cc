// Loops on the arena's threads read what their maker wrote, and leave what they
// wrote to whoever waited: ThreadSanitizer watches.
#include "core/backends/cpu/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace topk::cpu {
namespace {

TEST(Pieces, SynchronizeWithTheirCaller) {
  tbb::task_arena arena(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> in(1000);
    std::vector<int64_t> out(in.size());
    std::iota(in.begin(), in.end(), round);
    RunIn(arena, [&] {
      ForEachRange(1000, 10, nullptr, [&](int64_t begin, int64_t end) {
        std::copy(in.begin() + begin, in.begin() + end, out.begin() + begin);
      });
      ForEachPiece(1000, nullptr, [&](int64_t i) { out[i] -= i; });
    });
    EXPECT_EQ(out, std::vector<int64_t>(1000, round));
  }
}

}  // namespace
}  // namespace topk::cpu
