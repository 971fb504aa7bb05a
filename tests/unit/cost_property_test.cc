// The cost of any plan is nonnegative, does not shrink when the request grows,
// and is at least the actual cost but not much more.
#include <gtest/gtest.h>
#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <string>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/registry.h"
#include "core/base/dtype.h"
#include "core/engine.h"
#include "core/plan/cost.h"
#include "server/admission/in_flight_limiter.h"
#include "tests/support/backends.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// The memory that this program has allocated with operator new, and in
// core/backends/cpu/scratch.h, and its maximum since a Measure() began.
std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;

void* Counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<int64_t>(malloc_usable_size(p));
  const int64_t live = live_bytes += bytes;
  int64_t peak = peak_bytes;
  while (peak < live && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return p;
}

void Free(void* p) noexcept {
  if (p != nullptr) {
    live_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  }
  std::free(p);
}

}  // namespace
}  // namespace topk::testing

void* operator new(size_t size) {
  return topk::testing::Counted(std::malloc(size));
}
void* operator new(size_t size, std::align_val_t align) {
  const auto step = static_cast<size_t>(align);
  return topk::testing::Counted(
      std::aligned_alloc(step, (size + step - 1) / step * step));
}
// Replace the functions of oneTBB that Scratch uses.
extern "C" {
void* scalable_malloc(size_t size) {
  return topk::testing::Counted(std::malloc(size));
}
void scalable_free(void* p) { topk::testing::Free(p); }
}
void operator delete(void* p) noexcept { topk::testing::Free(p); }
void operator delete(void* p, size_t) noexcept { topk::testing::Free(p); }
void operator delete(void* p, std::align_val_t) noexcept {
  topk::testing::Free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  topk::testing::Free(p);
}

namespace topk::testing {
namespace {

using Random = std::mt19937_64;

// The accuracy that plan/cost.h promises.
constexpr int64_t kCostFactor = 64;
constexpr int64_t kCostFloor = 50'000;

// Allows anything that a dialect can request, whatever its cost.
constexpr Limits kNoLimits = {std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::max(), 64};

template <class T>
T OneOf(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

int64_t ExtremeSize(Random& random) {
  switch (random() % 4) {
    case 0:
      return OneOf<int64_t>(random, {0, 1, 1, 2, 3, 7, 64, 100});
    case 1:
      return (int64_t{1} << random() % 62) + OneOf<int64_t>(random, {-1, 0, 1});
    default:
      return static_cast<int64_t>(random() % (uint64_t{1} << random() % 20));
  }
}

// Returns a request that this machine can run or, if `extreme`, one with sizes
// up to the ends of their ranges.
PlanRequest AnyRequest(Random& random, bool extreme) {
  PlanRequest request =
      Ask(kDTypes[random() % std::size(kDTypes)].type, {}, 0, 1);
  const size_t rank = 1 + random() % (extreme ? 5 : 3);
  uint64_t left = uint64_t{1} << (4 + random() % 17);
  for (size_t d = 0; d < rank; ++d) {
    const uint64_t most = d + 1 < rank ? std::min<uint64_t>(left, 2000) : left;
    const uint64_t size = 1 + random() % most;
    left = std::max<uint64_t>(left / size, 1);
    request.shape.push_back(extreme ? ExtremeSize(random)
                                    : static_cast<int64_t>(size));
  }
  std::ranges::shuffle(request.shape, random);
  request.axis = static_cast<int64_t>(random() % rank);
  const int64_t n = request.shape[static_cast<size_t>(request.axis)];
  request.k = std::clamp<int64_t>(
      OneOf<int64_t>(random, {1, 5, n / 10, n / 3, n / 2 + 1, n}), 1,
      std::max<int64_t>(n, 1));
  request.direction =
      OneOf(random, {Direction::kLargest, Direction::kSmallest});
  request.order = OneOf(random, {Order::kValue, Order::kIndex});
  if (!InfoOf(request.dtype).packed() && random() % 4 == 0) {
    int64_t stride = 1;
    for (const int64_t size : request.shape) {
      request.strides.push_back(random() % 5 == 0 ? 0 : stride);
      stride = extreme ? OneOf<int64_t>(random, {1, 2, 1 << 20, UINT32_MAX})
                       : stride * size;
    }
  }
  if (!extreme) return request;
  request.wants_values = random() % 4 > 0;
  if (random() % 8 == 0) request.values.total_bytes = ExtremeSize(random);
  return request;
}

// Returns a copy in which one size, or k, is a little or much larger.
PlanRequest Larger(Random& random, PlanRequest request) {
  const size_t which = random() % (request.shape.size() + 1);
  int64_t& size =
      which < request.shape.size() ? request.shape[which] : request.k;
  size = random() % 2 == 0 || size > int64_t{1} << 40 ? size + 1 : 2 * size;
  return request;
}

std::string Text(const PlanRequest& request) {
  return std::string(InfoOf(request.dtype).name) + " " +
         ::testing::PrintToString(request.shape) + " strides " +
         ::testing::PrintToString(request.strides) + " axis " +
         std::to_string(request.axis) + " k " + std::to_string(request.k);
}

TEST(CostOfAnyPlan, GrowsWithEachSize) {
  Random random(1);
  int compared = 0;
  const auto backends = MakeBackends(2);
  const Backend& backend = *backends.back();
  for (int i = 0; i < 20000 && !::testing::Test::HasFailure(); ++i) {
    const PlanRequest request = AnyRequest(random, /*extreme=*/true);
    const PlanRequest more = Larger(random, request);
    const Result<Plan> plan = MakePlan(request, kNoLimits);
    const Result<Plan> larger = MakePlan(more, kNoLimits);
    if (!plan.ok() || !larger.ok()) continue;
    ++compared;
    const auto compare = [&](Arrival arrival, const char* what) {
      const Cost small = backend.Prepare(*plan, arrival)->cost();
      const Cost large = backend.Prepare(*larger, arrival)->cost();
      EXPECT_TRUE(large.input_bytes >= small.input_bytes &&
                  large.output_bytes >= small.output_bytes &&
                  large.nanoseconds >= small.nanoseconds)
          << what << Text(request) << " to " << Text(more);
    };
    compare(Arrival::kWhole, "run ");
    if (!plan->input.contiguous) continue;
    compare(Arrival::kStream, "fold ");
    const auto stream = backend.Prepare(*plan, Arrival::kStream);
    const auto bytes = static_cast<int64_t>(random() % (1 << 24));
    EXPECT_GE(stream->FeedNanoseconds(2 * bytes).value(),
              stream->FeedNanoseconds(bytes).value());
  }
  EXPECT_GT(compared, 3000);
}

int64_t CpuNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The CPU time and the memory that a run took.
struct Taken {
  int64_t nanoseconds;
  int64_t bytes;
};
template <class Run>
Taken Measure(const Run& run) {
  const int64_t bytes = peak_bytes = live_bytes.load();
  const int64_t start = CpuNanoseconds();
  run();
  return {CpuNanoseconds() - start, peak_bytes - bytes};
}

std::string DataFor(Random& random, const Plan& plan) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const int64_t count =
      type.packed() ? plan.slices() * plan.n : plan.input.bytes / type.bytes;
  std::string data = SomeData(plan.dtype, count, random(),
                              OneOf<uint64_t>(random, {0, 0, 2, 1000}));
  if (random() % 4 == 0 && type.bytes == 4) {  // ascending is the worst case
    for (int64_t i = 0; i < count; ++i) {
      const auto element = static_cast<uint32_t>(i);
      std::copy_n(reinterpret_cast<const char*>(&element), 4,
                  data.data() + 4 * i);
    }
  }
  return data;
}

TEST(CostOfAnyPlan, CoversARun) {
#if defined(TOPK_SANITIZED) || defined(TOPK_EMULATED) || defined(TOPK_COUNTED)
  constexpr bool kTimed = false;
  constexpr int kRounds = 100;
#else
  constexpr bool kTimed = true;
  constexpr int kRounds = 1000;
#endif
  // Allowance for small vectors, thread stacks, and the response itself.
  constexpr int64_t kSmallBytes = int64_t{64} << 10;
  // Runs that take longer than this, or are too short to measure, are skipped.
  constexpr int64_t kLongest = 100'000'000;
  // Allowance for a machine that is busy, or slower than those measured.
  constexpr int64_t kSlower = 4;
  // The most that a run without SIMD may take, as promised in plan/cost.h.
  constexpr int64_t kScalarSlower = 16;
  Random random(2);
  const Engine engine({2, {}});
  const auto sets = cpu::SupportedInstructionSets();
  std::vector<std::unique_ptr<Backend>> backends;
  for (const auto& set : sets) backends.push_back(MakeCpuBackend(2, set));
  for (int i = 0; i < kRounds; ++i) {
    const PlanRequest request = AnyRequest(random, /*extreme=*/false);
    const Backend& backend = *backends[static_cast<size_t>(i) % sets.size()];
    const int64_t slower =
        backend.instruction_set() == "scalar" ? kScalarSlower : kSlower;
    const bool folds = ValidPlan(request).input.contiguous && random() % 3 == 0;
    const auto prepare = [&] {
      PreparedRequest prepared;
      prepared.plan = std::make_unique<const Plan>(ValidPlan(request));
      prepared.prepared = backend.Prepare(
          *prepared.plan, folds ? Arrival::kStream : Arrival::kWhole);
      return prepared;
    };
    const PreparedRequest prepared = prepare();
    const Cost cost = prepared.prepared->cost();
    const std::string data = DataFor(random, *prepared.plan);
    const auto bytes = std::as_bytes(std::span(data));
    std::optional<Taken> best;
    // Retry if another process may have interfered.
    for (int round = 0;
         round < 3 ||
         (round < 30 && best->nanoseconds > slower * cost.nanoseconds.value());
         ++round) {
      const Taken taken = Measure([&] {
        if (folds) {
          auto stream = TensorStream::Start(engine, prepare(), nullptr);
          ASSERT_TRUE(stream.ok());
          ASSERT_TRUE((*stream)->Feed(bytes).ok());
          ASSERT_TRUE((*stream)->Finish().ok());
        } else {
          ASSERT_TRUE(engine.Run(prepared, std::span(&bytes, 1), nullptr).ok());
        }
      });
      if (!best || taken.nanoseconds < best->nanoseconds) best = taken;
      best->bytes = std::min(best->bytes, taken.bytes);
    }
    const std::string what =
        Describe(backend) + (folds ? " fold " : " run ") + Text(request);
    ASSERT_LE(best->bytes,
              (cost.output_bytes + cost.working_bytes + kSmallBytes).value())
        << what;
    // A stream reserves memory for chunks that end anywhere, but this stream
    // has a single chunk. With sanitizers, Scratch's memory is not counted.
#ifdef TOPK_SANITIZED
    constexpr bool kCountsScratch = false;
#else
    constexpr bool kCountsScratch = true;
#endif
    if (!folds && kCountsScratch) {
      ASSERT_LE((cost.output_bytes + cost.working_bytes).value(),
                4 * (best->bytes + kSmallBytes))
          << what;
    }
    if (!kTimed || cost.nanoseconds > kLongest) continue;
    ASSERT_LE(best->nanoseconds, slower * cost.nanoseconds.value()) << what;
    // With few distinct values, a scan ends early, at k elements of top rank.
    if (InfoOf(request.dtype).bits < 16) continue;
    ASSERT_LE(cost.nanoseconds.value(),
              kCostFloor + kCostFactor * best->nanoseconds)
        << what;
  }
}

TEST(InFlightLimiter, ForgetsRejectedClients) {
  InFlightLimiter limiter({.calls = 0, .client_calls = 1});
  InFlightLimiter::Slot slot;
  const int64_t before = live_bytes;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(limiter.Admit("client " + std::to_string(i), slot).ok());
  }
  EXPECT_LT(live_bytes - before, 1000);
}

}  // namespace
}  // namespace topk::testing
