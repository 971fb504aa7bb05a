// Counts allocations. A separate program, because it counts every operator new.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/base/deferred_free.h"
#include "core/base/text.h"
#include "server/admission/in_flight_limiter.h"
#include "tests/support/backends.h"
#include "tests/support/compute.h"
#include "tests/unit/counted_memory.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// Returns the allocations of a run over `rows` rows, which must use `kernel`.
int64_t Count(const Backend& backend, DType dtype, int64_t rows, int64_t n,
              int64_t k, const char* kernel) {
  const Plan plan = ValidPlan(Ask(dtype, {rows, n}, 1, k));
  const auto prepared = backend.Prepare(plan, Arrival::kWhole);
  const std::string tensor = SomeData(dtype, rows * n, 1);
  std::string values(static_cast<size_t>(plan.values.bytes), '\0');
  std::string indices(static_cast<size_t>(plan.indices.bytes), '\0');
  const int64_t before = allocations;
  const Execution execution =
      RunWhole(*prepared, std::as_bytes(std::span(tensor)),
               {std::as_writable_bytes(std::span(values)),
                std::as_writable_bytes(std::span(indices))});
  const int64_t count = allocations - before;
  EXPECT_TRUE(execution.kernel.starts_with(kernel)) << execution.kernel;
  return count;
}

TEST(Allocations, DoNotGrowWithTheRows) {
  struct Shape {
    const char* kernel;
    int64_t n;
    int64_t k;
  };
  for (const auto& backend : AllBackends(1)) {
    if (backend->name() != "cpu") continue;  // a device has its own memory
    for (const DType dtype :
         {DType::kF32, DType::kI64, DType::kU8, DType::kU4, DType::kF8E4M3}) {
      for (const Shape& s :
           {Shape{"short-rows", 200, 8}, Shape{"scan", 6000, 40},
            Shape{"scan", 300, 70}, Shape{"sort", 300, 300}}) {
        const int64_t few = Count(*backend, dtype, 10, s.n, s.k, s.kernel);
        const int64_t many = Count(*backend, dtype, 200, s.n, s.k, s.kernel);
        // With more rows, the worst row may need a slightly larger buffer.
        EXPECT_LE(many, few + 8) << Describe(*backend) << " " << s.kernel;
        EXPECT_LT(many, 60) << Describe(*backend) << " " << s.kernel;
      }
    }
  }
}

std::atomic<bool> freed = false;

void FreeAtExit() {
  DeferFree(1, [] { freed = true; });
  for (int i = 0; i < 1000 && !freed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  _exit(freed ? 0 : 1);
}

TEST(DeferFreeDeathTest, FreesAfterStaticObjectsAreDestroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    // Called after the destructors of static objects that are created later.
    std::atexit(FreeAtExit);
    DeferFree(1, [] {});
    std::exit(2);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST(InFlightLimiter, ForgetsRejectedClients) {
  InFlightLimiter limiter({.calls = 0, .client_calls = 1});
  InFlightLimiter::Slot slot;
  const int64_t before = live_bytes;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(limiter.Admit(StrCat("client ", i), slot).ok());
  }
  EXPECT_LT(live_bytes - before, 1000);
}

}  // namespace
}  // namespace topk::testing
