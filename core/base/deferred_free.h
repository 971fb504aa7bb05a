// Frees large allocations on a background thread. Returning a GiB of small
// pages to the OS takes about 60 ms, too long for a response or a cancellation.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace topk {

/// The minimum size of a deferred free, in bytes. Freeing this much takes 2 ms.
inline constexpr size_t kLargeBytes = size_t{32} << 20;

/// Returns the pages of `memory` to the OS, which discards their content. Works
/// in small steps, because each step blocks the allocations of all threads.
void DropPages(void* memory, size_t bytes) noexcept;

/// Enqueues `memory` for the background thread, which drops the first `bytes`
/// bytes with DropPages() and calls `free`. If enqueuing fails, calls `free` on
/// this thread. Memory that is still enqueued at process exit is freed then.
void DeferFree(void* memory, size_t bytes, void (*free)(void*)) noexcept;

/// Deletes an object on the background thread, possibly at process exit.
/// REQUIRES: the destructor uses nothing that may be destroyed earlier.
template <class T>
void DeferFree(std::unique_ptr<T> object) noexcept {
  DeferFree(object.release(), 0, [](void* p) { delete static_cast<T*>(p); });
}

/// A std::allocator that frees large blocks with DeferFree().
template <class T>
struct DeferredFreeAllocator {
  using value_type = T;

  DeferredFreeAllocator() = default;
  template <class U>
  DeferredFreeAllocator(const DeferredFreeAllocator<U>&) {
  }  // NOLINT: allocators convert implicitly

  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* p, size_t count) noexcept {
    if (count * sizeof(T) < kLargeBytes) {
      std::allocator<T>().deallocate(p, count);
    } else {
      DeferFree(p, count * sizeof(T),
                [](void* large) { ::operator delete(large); });
    }
  }
  bool operator==(const DeferredFreeAllocator&) const { return true; }
};

}  // namespace topk
