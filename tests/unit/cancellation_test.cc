// A cancelled computation ends early. A computation that finishes before it is
// cancelled returns the usual bytes.
#include "core/base/cancellation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/backends/cpu/cpu_backend.h"
#include "core/engine.h"
#include "tests/support/compute.h"
#include "tests/support/requests.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using Clock = std::chrono::steady_clock;

// A plan that takes at least several milliseconds, and its kernel.
struct Big {
  const char* name;
  const char* kernel;
  DType type;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  std::vector<int64_t> strides = {};
  bool stream = false;
  bool by_index = false;
};

void PrintTo(const Big& big, std::ostream* out) { *out << big.name; }

class Cancelling : public ::testing::TestWithParam<Big> {};

// The tensors are large, so one test covers a run without cancellation, a
// cancellation before the run, and cancellations at several moments of the run.
TEST_P(Cancelling, EndsEarlyOrReturnsTheWholeResult) {
  const Big& big = GetParam();
  PlanRequest request = Ask(big.type, big.shape, big.axis, big.k);
  request.order = big.by_index ? Order::kIndex : Order::kValue;
  request.strides = big.strides;
  const Plan plan = ValidPlan(request);
  const std::string data =
      SomeData(big.type, plan.input.bytes * 8 / InfoOf(big.type).bits, 1);
  for (const int threads : {1, 3}) {
    const auto backend =
        MakeCpuBackend(threads, cpu::SupportedInstructionSets().front());
    const auto run = [&](const Cancellation* cancellation) {
      return big.stream ? FoldPlan(
                              *backend, plan, data,
                              [] { return size_t{1} << 19; }, cancellation)
                        : RunPlan(*backend, plan, data, cancellation);
    };
    const auto begin = Clock::now();
    const Answer whole = run(nullptr);
    const auto took = Clock::now() - begin;
    EXPECT_TRUE(whole.kernel.starts_with(big.kernel)) << whole.kernel;

    Cancellation before;
    before.Cancel();
    EXPECT_FALSE(run(&before) == whole) << whole.kernel;

    constexpr int kTries = 5;
    for (int i = 0; i < kTries; ++i) {
      Cancellation cancellation;
      const std::jthread canceller([&] {
        std::this_thread::sleep_for(took * i / kTries);
        cancellation.Cancel();
      });
      const Answer answer = run(&cancellation);
      if (!IsCancelled(&cancellation)) {
        EXPECT_TRUE(answer == whole) << i;
      }
    }
  }
}

std::vector<Big> AllBig() {
  using enum DType;
  constexpr int64_t kM = int64_t{1} << 20;
  constexpr bool kStream = true;
  constexpr bool kByIndex = true;
  return {
      {"short_rows", "short-rows", kF32, {10000, 200}, 1, 8},
      {"scan", "scan", kI32, {1, 4 * kM}, 1, 100},
      {"scan_many", "scan", kI32, {1, kM / 4}, 1, 100000},
      {"scan_rows", "scan", kI16, {40, 50000}, 1, 300},
      {"sort", "sort", kF32, {1, kM / 2}, 1, kM / 2},
      {"by_index", "scan", kI64, {1, kM / 4}, 1, kM / 5, {}, false, kByIndex},
      {"sort_rows", "sort", kU8, {2000, 200}, 1, 200},
      {"columns", "columns", kF32, {4, 300, 2000}, 1, 5, {600000, 2000, 1}},
      {"narrow_columns", "columns", kI64, {kM / 2, 3}, 0, 9},
      {"copied", "scan-copied", kI16, {4000, 300}, 0, 50},
      {"strided", "scan-copied", kF32, {1, kM}, 1, 100, {0, 2}},
      {"packed_short_rows", "short-rows", kU4, {10000, 201}, 1, 8},
      {"packed_scan", "scan", kU6, {1, 2 * kM}, 1, kM / 4},
      {"packed_sort", "sort", kI4, {1, kM / 2}, 1, kM / 2},
      {"packed_columns", "scan-copied", kU3, {4000, 301}, 0, 50},
      {"packed_fold", "fold", kF4E2M1, {1, 4 * kM}, 1, kM / 2, {}, kStream},
      {"fold", "fold", kI32, {1, 4 * kM}, 1, 1000, {}, kStream},
      {"fold_many", "fold", kI32, {1, kM / 2}, 1, 200000, {}, kStream},
      {"fold_columns", "fold", kF32, {20, 20000}, 0, 4, {}, kStream},
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, Cancelling, ::testing::ValuesIn(AllBig()),
                         ::testing::PrintToStringParamName());

TEST(Cancelling, EndsEveryCallOfAStream) {
  const std::string data = SomeData(DType::kI32, 1000, 1);
  const Engine engine({1, {}});
  for (int calls = 0; calls < 3; ++calls) {
    Cancellation cancellation;
    if (calls == 0) cancellation.Cancel();
    auto stream = StartStream(engine, OnnxRequest(v1::DATA_TYPE_I32, {1000}, 3),
                              &cancellation);
    if (calls == 0) {
      EXPECT_EQ(stream.status().code, Code::kCancelled);
      continue;
    }
    ASSERT_TRUE(stream.ok());
    if (calls == 1) cancellation.Cancel();
    EXPECT_EQ((*stream)->Feed(std::as_bytes(std::span(data))).ok(), calls == 2);
    cancellation.Cancel();
    EXPECT_EQ((*stream)->Finish().status().code, Code::kCancelled);
  }
}

}  // namespace
}  // namespace topk::testing
