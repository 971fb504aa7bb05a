// The kernels of the CUDA backend, run on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "core/backends/cuda/filter.h"
#include "tests/support/cuda/host_block.h"
#include "tests/support/generators.h"
#include "tests/unit/run_plan.h"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace topk::cuda {
namespace {

using topk::testing::Answer;
using topk::testing::Ask;
using topk::testing::Pick;
using topk::testing::Random;
using topk::testing::RunOnHost;
using topk::testing::RunOnThreads;
using topk::testing::Seed;
using topk::testing::SlowAnswer;
using topk::testing::SomeData;
using topk::testing::ValidPlan;

// How to run a plan.
struct Way {
  // The positions of each tile.
  std::vector<int64_t> tiles;
  int64_t parts = 1;
  // The offset of a tile's first element from an aligned address, in elements.
  size_t offset = 0;
  bool in_warps = false;
  bool on_threads = false;
  uint64_t seed = 1;
};

// Memory that can be read in vectors of 16 bytes.
class VectorMemory {
 public:
  explicit VectorMemory(size_t bytes) : vectors_((bytes + 15) / 16) {}
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(vectors_.data());
  }

 private:
  struct alignas(16) Vector {
    char bytes[16] = {};
  };
  mutable std::vector<Vector> vectors_;
};

// Memory for items, with an exact size so that AddressSanitizer finds errors.
class ItemMemory {
 public:
  ItemMemory(int64_t count, int bytes)
      : data_(static_cast<size_t>(count * ItemBytes(bytes))),
        arrays_(ArraysIn(data_.data(), count, bytes)) {}
  const ItemArrays& arrays() const { return arrays_; }

 private:
  std::vector<char> data_;
  ItemArrays arrays_;
};

template <class Kernel>
void Run(const SelectTask& task, int64_t parts, const Way& way) {
  const Kernel kernel{{task}, parts};
  const size_t bytes = Kernel::SharedBytes(task.k);
  if (way.on_threads) {
    RunOnThreads(kernel, bytes);
  } else {
    RunOnHost(kernel, bytes, way.seed);
  }
}

template <class Element, bool kFloat>
void RunTile(const SelectTask& task, const Way& way) {
  const auto run = [&](const SelectTask& each, int64_t parts) {
    if (way.in_warps) {
      Run<Filter<Element, kFloat, 32>>(each, parts, way);
    } else {
      Run<Filter<Element, kFloat, 256>>(each, parts, way);
    }
  };
  const int64_t parts =
      std::clamp<int64_t>(task.length() / task.k, 1, way.parts);
  if (parts == 1) return run(task, 1);
  const ItemMemory memory(task.kept_count() * parts, task.rule.bytes);
  SelectTask first = task;
  first.kept = memory.arrays();
  run(first, parts);
  SelectTask rest = task;
  rest.elements = nullptr;
  rest.positions = 0;
  rest.carried = memory.arrays();
  rest.carried_count = parts * task.k;
  run(rest, 1);
}

template <class Element>
Answer RunAs(const Plan& plan, const std::string& tensor, const Way& way) {
  Answer answer;
  answer.values.resize(static_cast<size_t>(plan.values.bytes));
  answer.indices.resize(static_cast<size_t>(plan.indices.bytes));
  SelectTask task;
  task.rule = RuleOf(InfoOf(plan.dtype), plan.direction == Direction::kLargest);
  task.batches = plan.outer;
  task.inner = plan.inner;
  task.index_bytes = InfoOf(plan.index_type).bytes;
  task.index_offset = plan.index_offset;
  const auto elements = [&](int64_t count) {
    return static_cast<size_t>(count) * sizeof(Element);
  };
  std::optional<ItemMemory> carried;
  for (const int64_t positions : way.tiles) {
    task.positions = positions;
    const int64_t count = task.slices() * positions;
    // The tile of each batch, with the tensor's layout.
    const VectorMemory tile(elements(count) + way.offset * sizeof(Element));
    Element* const rows = tile.as<Element>() + way.offset;
    for (int64_t batch = 0; batch < plan.outer; ++batch) {
      std::memcpy(
          rows + batch * positions * plan.inner,
          tensor.data() +
              elements((batch * plan.n + task.first_position) * plan.inner),
          elements(positions * plan.inner));
    }
    task.elements = rows;
    const VectorMemory transposed(elements(count));
    if (plan.inner > 1) {
      auto* const to = transposed.as<Element>();
      const Transpose<Element> transpose{rows, to, task.batches, positions,
                                         task.inner};
      RunOnHost(transpose, Transpose<Element>::SharedBytes(), way.seed);
      task.elements = to;
    }
    task.k = std::min(plan.k, task.length());
    std::optional<ItemMemory> kept;
    if (task.first_position + positions < plan.n) {
      kept.emplace(task.kept_count(), task.rule.bytes);
      task.kept = kept->arrays();
    } else {
      task.kept = {};
      task.values = answer.values.data();
      task.indices = answer.indices.data();
      task.by_index = plan.order == Order::kIndex;
    }
    if (task.rule.is_float) {
      RunTile<Element, true>(task, way);
    } else {
      RunTile<Element, false>(task, way);
    }
    carried = std::move(kept);
    if (carried) task.carried = carried->arrays();
    task.carried_count = task.k;
    task.first_position += positions;
  }
  return answer;
}

Answer RunFilter(const Plan& plan, const std::string& tensor, const Way& way) {
  switch (InfoOf(plan.dtype).bytes) {
    case 1:
      return RunAs<uint8_t>(plan, tensor, way);
    case 2:
      return RunAs<uint16_t>(plan, tensor, way);
    case 4:
      return RunAs<uint32_t>(plan, tensor, way);
    default:
      return RunAs<uint64_t>(plan, tensor, way);
  }
}

constexpr DType kTypes[] = {
    DType::kF16, DType::kBF16, DType::kF32,    DType::kF64,    DType::kI8,
    DType::kI16, DType::kI32,  DType::kI64,    DType::kU8,     DType::kU16,
    DType::kU32, DType::kU64,  DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0};

// Bits 0 .. count - 1, or the reverse: ascending numbers make every element
// pass the bound.
std::string Monotonic(DType type, int64_t count, bool ascending) {
  const auto bytes = static_cast<size_t>(InfoOf(type).bytes);
  std::string data(static_cast<size_t>(count) * bytes, '\0');
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bits = ascending ? i : count - 1 - i;
    std::memcpy(data.data() + static_cast<size_t>(i) * bytes, &bits, bytes);
  }
  return data;
}

// Random bits, of which most are NaNs if the type has NaNs.
std::string MostlyNaN(Random& random, DType type, int64_t count) {
  std::string data = SomeData(type, count, random());
  const DTypeInfo& info = InfoOf(type);
  if (!info.is_float) return data;
  const auto bytes = static_cast<size_t>(info.bytes);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t draw = random();
    if (draw % 16 == 0) continue;
    const uint64_t bits =
        (info.infinity + 1 + draw / 32 % (info.sign - info.infinity - 1)) |
        (draw % 32 < 16 ? 0 : info.sign);
    std::memcpy(data.data() + static_cast<size_t>(i) * bytes, &bits, bytes);
  }
  return data;
}

std::string AnyData(Random& random, DType type, int64_t count) {
  switch (Pick(random, 0, 6)) {
    case 0:
      return SomeData(type, count, random());
    case 1:
      return SomeData(type, count, random(), 3);
    case 2:
      return SomeData(type, count, random(), 1);
    case 3:
      return Monotonic(type, count, true);
    case 4:
      return Monotonic(type, count, false);
    case 5:
      return MostlyNaN(random, type, count);
    default:
      return topk::testing::RandomData(random, static_cast<v1::DataType>(type),
                                       count);
  }
}

// A length near a multiple of a vector, a tile or a capacity.
int64_t SomeLength(Random& random, int64_t longest) {
  constexpr int64_t kUnits[] = {1, 8, 32, 512, 1024, 2048, 3072, 4096};
  const int64_t unit = kUnits[Pick(random, 0, 7)];
  const int64_t length = unit * Pick(random, 1, 9) + Pick(random, -9, 9);
  return std::clamp<int64_t>(length, 1, longest);
}

TEST(CudaFilter, EqualsTheOracle) {
  Random random(Seed(20261128));
  for (int i = 0; i < 600; ++i) {
    const DType type = kTypes[i % std::size(kTypes)];
    const int bytes = InfoOf(type).bytes;
    Way way;
    way.seed = random();
    way.in_warps = Pick(random, 0, 1) == 0;
    way.parts = Pick(random, 0, 2) == 0 ? Pick(random, 2, 9) : 1;
    way.offset = static_cast<size_t>(Pick(random, 0, 8));
    const int64_t n = SomeLength(random, 20000);
    const int64_t most = std::min(
        n, way.in_warps ? (bytes == 8 ? 64 : 128) : MaxFilteredK(bytes));
    const int64_t k = Pick(random, 0, 3) == 0 ? most
                      : Pick(random, 0, 1) == 0
                          ? Pick(random, 1, most)
                          : Pick(random, 1, std::min<int64_t>(most, 70));
    for (int64_t at = 0; at < n;) {
      const int64_t rest = n - at;
      const int64_t tile =
          Pick(random, 0, 2) == 0 ? Pick(random, 1, rest) : rest;
      way.tiles.push_back(tile);
      at += tile;
    }
    const bool columns = Pick(random, 0, 3) == 0 && n < 2000;
    const int64_t inner = columns ? Pick(random, 2, 40) : 1;
    const int64_t outer = Pick(random, 1, n < 2000 ? 3 : 1);
    PlanRequest request = Ask(type, {outer, n, inner}, 1, k);
    request.attributes = "";
    request.direction =
        Pick(random, 0, 1) == 0 ? Direction::kLargest : Direction::kSmallest;
    request.order = Pick(random, 0, 2) == 0 ? Order::kIndex : Order::kValue;
    if (Pick(random, 0, 1) == 0) request.index_type = DType::kI32;
    const Plan plan = ValidPlan(request);
    const std::string data = AnyData(random, type, outer * n * inner);
    ASSERT_EQ(RunFilter(plan, data, way), SlowAnswer(plan, data))
        << InfoOf(type).name << " [" << outer << ", " << n << ", " << inner
        << "] k " << k << " parts " << way.parts << " tiles "
        << way.tiles.size() << " warps " << way.in_warps;
  }
}

// On threads that run at the same time, for ThreadSanitizer.
TEST(CudaFilter, HasNoRaces) {
  const auto run = [](DType type, int64_t n, int64_t k, Order order, Way way,
                      const std::string& data) {
    PlanRequest request = Ask(type, {1, n}, 1, k);
    request.order = order;
    const Plan plan = ValidPlan(request);
    way.on_threads = true;
    EXPECT_EQ(RunFilter(plan, data, way), SlowAnswer(plan, data));
  };
  const Way in_warps = {.tiles = {700, 200}, .parts = 3, .in_warps = true};
  run(DType::kF32, 900, 20, Order::kValue, in_warps,
      Monotonic(DType::kF32, 900, true));
  run(DType::kF64, 900, 20, Order::kIndex, in_warps,
      SomeData(DType::kF64, 900, 1));
  // Too many elements at a time for the capacity.
  run(DType::kU8, 6000, 50, Order::kIndex, {.tiles = {6000}},
      SomeData(DType::kU8, 6000, 2));
  run(DType::kF16, 5000, 500, Order::kValue, {.tiles = {100, 4900}},
      Monotonic(DType::kF16, 5000, true));
}

#if !__has_feature(thread_sanitizer)  // would report the intended races
// The elements change while the kernel runs: all indices must still be valid,
// and nothing else may be written, which AddressSanitizer checks.
TEST(CudaFilter, SurvivesChangingElements) {
  constexpr int64_t kLength = 20000;
  constexpr int64_t kK = 300;
  const VectorMemory tensor(kLength * sizeof(uint32_t));
  std::atomic<bool> stop = false;
  std::jthread changer([&] {
    Random random(1);
    while (!stop) {
      const auto at = static_cast<size_t>(random() % kLength);
      std::atomic_ref(tensor.as<uint32_t>()[at])
          .store(static_cast<uint32_t>(random()), std::memory_order_relaxed);
    }
  });
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<uint32_t> values(kK);
    std::vector<int64_t> indices(kK, -1);
    SelectTask task;
    task.rule = RuleOf(InfoOf(DType::kU32), true);
    task.elements = tensor.as<uint32_t>();
    task.positions = kLength;
    task.k = kK;
    task.values = values.data();
    task.indices = indices.data();
    task.index_bytes = 8;
    using Kernel = Filter<uint32_t, false, 256>;
    RunOnHost(Kernel{{task}, 1}, Kernel::SharedBytes(kK), seed);
    std::ranges::sort(indices);
    EXPECT_GE(indices.front(), 0);
    EXPECT_LT(indices.back(), kLength);
    EXPECT_EQ(std::ranges::adjacent_find(indices), indices.end());
  }
  stop = true;
}
#endif

}  // namespace
}  // namespace topk::cuda
