// Every applicable algorithm returns the bytes of a stable sort, on every
// instruction set and for any partition of the tensor.
#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include "core/backends/cpu/run_schedule.h"
#include "tests/support/generators.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using cpu::Algorithm;

constexpr Algorithm kAlgorithms[] = {
    Algorithm::kShortRows,
    Algorithm::kScan,
    Algorithm::kSort,
    Algorithm::kColumns,
};

struct Shape {
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
};

const Shape kShapes[] = {
    {{3, 40}, 1, 5},     {{2, 300}, 1, 16},  {{1, 5000}, 1, 20},
    {{2, 3000}, 1, 900}, {{70}, 0, 70},      {{9000}, 0, 8999},
    {{2, 50, 3}, 1, 7},  {{400, 5}, 0, 32},  {{2, 90, 70}, 1, 3},
    {{60, 130}, 0, 60},  {{1000, 2}, 0, 40}, {{3, 1}, 0, 1},
    {{11, 33}, 1, 11},   {{11, 256}, 1, 8},  {{50, 1031}, 0, 5},
    {{65, 64}, 1, 1},    {{7, 200}, 0, 7},   {{40, 17}, 0, 16},
};

TEST(Algorithms, AgreeOnEverySupportedPlan) {
  tbb::task_arena arena(3);
  int64_t runs = 0;
  uint64_t turn = 0;
  Random random(Seed(1));
  for (const DTypeInfo& type : kDTypes) {
    for (const Shape& s : kShapes) {
      ++turn;
      PlanRequest request = Ask(type.type, s.shape, s.axis, s.k);
      request.direction =
          turn % 2 == 0 ? Direction::kLargest : Direction::kSmallest;
      request.order = turn % 5 == 0 ? Order::kIndex : Order::kValue;
      request.index_type = turn % 3 == 0 ? DType::kI32 : DType::kI64;
      request.index_offset = static_cast<int64_t>(turn % 7);
      const Plan plan = ValidPlan(request);
      int64_t count = 1;
      for (const int64_t size : s.shape) count *= size;
      // Random bits, ties, special values (NaN, infinity) or sorted elements.
      const std::string tensor =
          RandomData(random, static_cast<v1::DataType>(type.type), count);
      const Answer expected = SlowAnswer(plan, tensor);
      for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
        for (const Algorithm algorithm : kAlgorithms) {
          if (!CanRun(algorithm, plan)) continue;
          for (const auto& [threads, task] :
               {std::pair(1, cpu::kTaskNanoseconds), std::pair(3, 1.0)}) {
            const cpu::Schedule schedule =
                cpu::Cut(algorithm, plan, threads, task);
            Answer answer;
            answer.values.resize(static_cast<size_t>(plan.values.bytes));
            answer.indices.resize(static_cast<size_t>(plan.indices.bytes));
            arena.execute([&] {
              cpu::RunSchedule(
                  plan, schedule, set,
                  reinterpret_cast<const std::byte*>(tensor.data()),
                  {std::as_writable_bytes(std::span(answer.values)),
                   std::as_writable_bytes(std::span(answer.indices))});
            });
            ASSERT_TRUE(answer == expected)
                << NameOf(schedule) << " " << set.name << " " << type.name
                << " shape " << ::testing::PrintToString(s.shape) << " k "
                << s.k << " turn " << turn << " threads " << threads;
            ++runs;
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 500);
}

}  // namespace
}  // namespace topk::testing
