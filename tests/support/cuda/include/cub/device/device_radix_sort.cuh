// A part of CUB, for the simulated CUDA runtime.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/cuda/fake_runtime.h"

namespace cub {

template <class T>
struct DoubleBuffer {
  DoubleBuffer(T* current, T* alternate) : buffers{current, alternate} {}
  T* Current() { return buffers[selector]; }
  T* Alternate() { return buffers[selector ^ 1]; }

  std::array<T*, 2> buffers;
  size_t selector = 0;
};

/// Stable sorts by the bits begin .. end - 1. The result is in the alternate
/// buffer. Overwrites the other one, and the scratch memory.
struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, size_t& scratch_bytes,
                               DoubleBuffer<Key>& keys,
                               DoubleBuffer<Value>& values, int64_t count,
                               int begin, int end, cudaStream_t stream) {
    const auto sort = [=]() mutable {
      const auto order = Order(keys.Current(), count, begin, end);
      Reorder(order, keys);
      Reorder(order, values);
    };
    return Launch(scratch, scratch_bytes, stream, sort, keys, values);
  }

  template <class Key>
  static cudaError_t SortKeys(void* scratch, size_t& scratch_bytes,
                              DoubleBuffer<Key>& keys, int64_t count, int begin,
                              int end, cudaStream_t stream) {
    const auto sort = [=]() mutable {
      Reorder(Order(keys.Current(), count, begin, end), keys);
    };
    return Launch(scratch, scratch_bytes, stream, sort, keys);
  }

 private:
  template <class... Buffers>
  static cudaError_t Launch(void* scratch, size_t& scratch_bytes,
                            cudaStream_t stream, std::function<void()> sort,
                            Buffers&... buffers) {
    constexpr size_t kScratchBytes = 100;
    if (scratch == nullptr) {
      scratch_bytes = kScratchBytes;
      return cudaSuccess;
    }
    const cudaError_t error = topk::testing::FakeLaunch(stream, [=] {
      std::memset(scratch, 0x5A, kScratchBytes);
      sort();
    });
    ((buffers.selector ^= 1), ...);
    return error;
  }

  template <class Key>
  static std::vector<int64_t> Order(const Key* keys, int64_t count, int begin,
                                    int end) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const int unused = static_cast<int>(8 * sizeof(Key)) - end;
    const Key mask = static_cast<Key>(static_cast<Key>(~Key{0}) >> unused);
    std::ranges::stable_sort(order, {}, [&](int64_t i) {
      return static_cast<Key>((keys[i] & mask) >> begin);
    });
    return order;
  }

  template <class T>
  static void Reorder(const std::vector<int64_t>& order,
                      DoubleBuffer<T>& buffer) {
    for (size_t i = 0; i < order.size(); ++i) {
      buffer.Alternate()[i] = buffer.Current()[order[i]];
    }
    std::memset(buffer.Current(), 0x5A, order.size() * sizeof(T));
  }
};

}  // namespace cub
