// Thread blocks on a CPU, for the kernels of core/backends/cuda/filter.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace topk::testing {

/// Runs the threads of a block one after another between barriers, in a random
/// order. Aborts if a kernel accesses shared memory elsewhere.
template <int kThreads>
class HostBlock {
 public:
  template <class T>
  using Local = std::array<T, kThreads>;

  HostBlock(size_t shared_bytes, uint32_t seed)
      : memory_(shared_bytes / sizeof(Unit) + 1), random_(seed) {
    std::iota(order_.begin(), order_.end(), 0);
    // Shared memory is not initialized.
    for (Unit& unit : memory_) unit.bytes.fill(std::byte{0xA5});
  }

  template <class F>
  void Each(const F& f) {
    Any([&](int thread) {
      f(thread);
      return false;
    });
  }
  template <class F>
  bool Any(const F& f) {
    inside_ = true;
    std::swap(order_[random_() % kThreads], order_[random_() % kThreads]);
    std::rotate(order_.begin(), order_.begin() + random_() % kThreads,
                order_.end());
    if (random_() % 2 == 0) std::reverse(order_.begin(), order_.end());
    bool any = false;
    for (const int thread : order_) any |= f(thread);
    inside_ = false;
    return any;
  }
  template <class F>
  auto Read(const F& f) {
    inside_ = true;
    const auto value = f();
    inside_ = false;
    return value;
  }
  void* memory() {
    if (!inside_) {
      std::cerr << "shared memory is accessed without a barrier" << std::endl;
      std::abort();
    }
    return memory_.data();
  }

  static uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
    return std::exchange(*to, *to + value);
  }
  static void AtomicMin(uint32_t* to, uint32_t value) {
    *to = std::min(*to, value);
  }
  static void AtomicMax(uint32_t* to, uint32_t value) {
    *to = std::max(*to, value);
  }
  static uint32_t CountOnes(uint32_t bits) {
    return static_cast<uint32_t>(std::popcount(bits));
  }
  static int LowestOne(uint32_t bits) { return std::countr_zero(bits); }
  static int Width(uint32_t bits) { return std::bit_width(bits); }

 private:
  struct alignas(16) Unit {
    std::array<std::byte, 16> bytes;
  };

  std::vector<Unit> memory_;
  std::minstd_rand random_;
  std::array<int, kThreads> order_;
  bool inside_ = false;
};

/// Runs the jobs of a kernel on HostBlocks.
template <class Kernel>
void RunOnHost(const Kernel& kernel, size_t shared_bytes) {
  static std::atomic<uint32_t> seed = 0;
  HostBlock<Kernel::kThreads> block(shared_bytes, ++seed);
  for (int64_t job = 0; job < kernel.jobs(); ++job) kernel.Run(block, job);
}

}  // namespace topk::testing
