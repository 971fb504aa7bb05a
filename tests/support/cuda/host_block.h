// Thread blocks on a CPU, for the kernels of core/backends/cuda/filter.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace topk::testing {

/// Functions of all blocks.
struct HostOperations {
  static uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
    return Update(to, [&](uint32_t old) { return old + value; });
  }
  static void AtomicMin(uint32_t* to, uint32_t value) {
    Update(to, [&](uint32_t old) { return std::min(old, value); });
  }
  static void AtomicMax(uint32_t* to, uint32_t value) {
    Update(to, [&](uint32_t old) { return std::max(old, value); });
  }
  static uint32_t CountOnes(uint32_t bits) {
    return static_cast<uint32_t>(std::popcount(bits));
  }
  static int LowestOne(uint32_t bits) { return std::countr_zero(bits); }
  static int Width(uint32_t bits) { return std::bit_width(bits); }

 protected:
  struct alignas(16) Unit {
    std::array<std::byte, 16> bytes;
  };

 private:
  // Relaxed, as on a device: only a barrier orders the threads' other accesses.
  template <class F>
  static uint32_t Update(uint32_t* to, const F& f) {
    const std::atomic_ref number(*to);
    uint32_t old = number.load(std::memory_order_relaxed);
    while (
        !number.compare_exchange_weak(old, f(old), std::memory_order_relaxed)) {
    }
    return old;
  }
};

/// Runs the threads of a block one after another between barriers, in a random
/// order. Aborts if a kernel accesses shared memory elsewhere.
template <int kThreads>
class HostBlock : public HostOperations {
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

 private:
  std::vector<Unit> memory_;
  std::minstd_rand random_;
  std::array<int, kThreads> order_;
  bool inside_ = false;
};

/// A thread of a block whose threads run at the same time, as on a device, so
/// that ThreadSanitizer finds races between barriers.
template <int kThreads>
class ThreadOfBlock : public HostOperations {
 public:
  template <class T>
  struct Local {
    T& operator[](int) { return value; }
    T value;
  };
  struct Shared {
    std::vector<Unit> memory;
    std::barrier<> barrier{kThreads};
    // The number of the latest Any() for which a thread returned true.
    std::atomic<int> latest = 0;
  };

  ThreadOfBlock(Shared& shared, int thread)
      : shared_(shared), thread_(thread) {}

  template <class F>
  void Each(const F& f) {
    f(thread_);
    shared_.barrier.arrive_and_wait();
  }
  template <class F>
  bool Any(const F& f) {
    ++number_;
    if (f(thread_)) shared_.latest = number_;
    shared_.barrier.arrive_and_wait();
    return Read([&] { return shared_.latest == number_; });
  }
  template <class F>
  auto Read(const F& f) {
    const auto value = f();
    shared_.barrier.arrive_and_wait();
    return value;
  }
  void* memory() { return shared_.memory.data(); }

 private:
  Shared& shared_;
  const int thread_;
  int number_ = 0;
};

/// While true, kernels run on ThreadOfBlocks, which takes much longer.
inline std::atomic<bool> threads_run_at_once = false;

/// Runs the jobs of a kernel, by default on HostBlocks.
template <class Kernel>
void RunOnHost(const Kernel& kernel, size_t shared_bytes) {
  const auto run = [&](auto block) {
    for (int64_t job = 0; job < kernel.jobs(); ++job) kernel.Run(block, job);
  };
  if (!threads_run_at_once) {
    static std::atomic<uint32_t> seed = 0;
    run(HostBlock<Kernel::kThreads>(shared_bytes, ++seed));
    return;
  }
  using Thread = ThreadOfBlock<Kernel::kThreads>;
  typename Thread::Shared shared;
  shared.memory.resize(shared_bytes / 16 + 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < Kernel::kThreads; ++i) {
    threads.emplace_back([&, i] { run(Thread(shared, i)); });
  }
}

}  // namespace topk::testing
