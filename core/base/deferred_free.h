// Frees large allocations on a background thread. Returning a GiB of small
// pages to the OS takes about 60 ms, too long for a response or a cancellation.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>

namespace topk {

/// DeferredFreeAllocator defers frees from this size, in bytes, and
/// FreeForAllocation() lets this many bytes wait. Freeing this much takes 2 ms.
inline constexpr size_t kLargeBytes = size_t{32} << 20;

/// Returns the pages of `memory` to the OS, which discards their content. Works
/// in small steps, because each step blocks the allocations of all threads.
void DropPages(void* memory, size_t bytes) noexcept;

/// Lets the background thread call `free`, which frees `bytes` bytes. If this
/// fails, calls `free` on this thread. At process exit, `free` may be called
/// after static objects have been destroyed, or never.
void DeferFree(size_t bytes, std::function<void()> free) noexcept;

/// Deletes an object of `bytes` bytes on the background thread.
template <class T>
void DeferFree(std::unique_ptr<T> object, size_t bytes) noexcept {
  DeferFree(bytes, [owned = object.release()] { delete owned; });
}

/// Call before allocating `bytes` bytes. If more than kLargeBytes are enqueued,
/// frees about twice `bytes` on this thread, because many threads could enqueue
/// memory faster than the background thread frees it.
void FreeForAllocation(size_t bytes) noexcept;

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
      const size_t bytes = count * sizeof(T);
      DeferFree(bytes, [p, bytes] {
        DropPages(p, bytes);
        ::operator delete(p);
      });
    }
  }
  bool operator==(const DeferredFreeAllocator&) const { return true; }
};

}  // namespace topk
