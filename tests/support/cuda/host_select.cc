// LaunchSelect() on the CPU, for the simulated CUDA runtime: sorts each slice
// with std::sort(). Tests the CUDA backend except select.cu.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "core/backends/cuda/items.h"
#include "core/backends/cuda/tasks.h"
#include "tests/support/cuda/fake_runtime.h"

namespace topk::testing {
namespace {

using cuda::Arrangement;
using cuda::ItemSource;
using cuda::Method;
using cuda::SelectTask;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "host select: " << what << std::endl;
  std::abort();
}

template <class Types>
void Select(const SelectTask& task) {
  using SortKey = typename Types::SortKey;
  using Bits = typename Types::Bits;
  struct Item {
    SortKey sort_key;
    Bits bits;
  };
  const ItemSource<Types> source{task};
  const auto before = [](const Item& a, const Item& b) {
    return a.sort_key > b.sort_key;
  };
  const auto k = static_cast<size_t>(task.k);
  std::vector<Item> items;
  for (int64_t s = 0; s < task.slices(); ++s) {
    items.clear();
    for (int64_t i = 0; i < task.length(); ++i) {
      items.push_back({source.SortKeyAt(s, i), source.BitsAt(s, i)});
    }
    std::sort(items.begin(), items.end(), before);
    Require(std::adjacent_find(items.begin(), items.end(),
                               [](const Item& a, const Item& b) {
                                 return a.sort_key == b.sort_key;
                               }) == items.end(),
            "two items of a slice have one order");
    items.resize(k);
    if (task.arrangement == Arrangement::kAny) {
      // Sort neither by value nor by index, to catch code that relies on order.
      std::reverse(items.begin(), items.end());
      std::rotate(items.begin(), items.begin() + task.k / 3, items.end());
    }
    if (task.arrangement == Arrangement::kByIndex) {
      for (Item& item : items) item.sort_key = Types::ByIndex(item.sort_key);
      std::sort(items.begin(), items.end(), before);
    }
    for (size_t i = 0; i < k; ++i) {
      const size_t at = static_cast<size_t>(s) * k + i;
      static_cast<SortKey*>(task.kept.sort_keys)[at] = items[i].sort_key;
      static_cast<Bits*>(task.kept.bits)[at] = items[i].bits;
    }
  }
  for (int64_t t = 0; t < task.kept_count(); ++t) {
    cuda::WriteOutput<Types>(task, t);
  }
}

void Check(const SelectTask& task) {
  Require(task.k >= 1 && task.k <= task.length(), "k is out of range");
  Require((task.method == Method::kKeepAll) == (task.k == task.length()),
          "the method is the wrong one");
  Require(task.method != Method::kBatchedTopK ||
              task.length() <= cuda::kMaxBatchedLength,
          "a slice is too long for a block");
}

}  // namespace
}  // namespace topk::testing

namespace topk::cuda {

// Allocates scratch memory, as the real function does.
int LaunchSelect(const SelectTask& task, void* stream, void* pool) {
  testing::Check(task);
  constexpr size_t kScratchBytes = 100;
  auto* const queue = static_cast<cudaStream_t>(stream);
  void* scratch = nullptr;
  cudaError_t error = cudaMallocFromPoolAsync(
      &scratch, kScratchBytes, static_cast<cudaMemPool_t>(pool), queue);
  if (error != cudaSuccess) return error;
  error = testing::FakeLaunch(queue, [task, scratch] {
    std::fill_n(static_cast<std::byte*>(scratch), kScratchBytes,
                std::byte{0x5A});
    task.rule.bytes <= 4 ? testing::Select<NarrowItems>(task)
                         : testing::Select<WideItems>(task);
  });
  cudaFreeAsync(scratch, queue);
  return error;
}

}  // namespace topk::cuda
