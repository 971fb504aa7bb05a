// Large allocations are freed on a background thread: releasing a GiB of small
// pages to the OS takes about 60 ms, which no response and no cancellation
// should wait for.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace topk {

/// The minimum size of a deferred free, in bytes; freeing it takes 2 ms.
inline constexpr size_t kLargeBytes = size_t{32} << 20;

/// Releases the pages of memory whose content is no longer needed to the OS, in
/// small blocks: while the OS releases a large block, no thread of the process
/// can allocate.
void DropPages(void* memory, size_t bytes) noexcept;

/// Passes the first `bytes` of the memory to DropPages() and then calls `free`,
/// soon, on one background thread; on this thread if enqueuing fails. Memory
/// that is left when the process ends is freed then.
void DeferFree(void* memory, size_t bytes, void (*free)(void*)) noexcept;

/// Deletes an object on the background thread. REQUIRES: its destructor uses
/// nothing that may be destroyed earlier.
template <class T>
void DeferFree(std::unique_ptr<T> object) noexcept {
  DeferFree(object.release(), 0, [](void* p) { delete static_cast<T*>(p); });
}

/// std::allocator that frees large memory by DeferFree().
template <class T>
struct DeferredFreeAllocator {
  using value_type = T;

  DeferredFreeAllocator() = default;
  template <class U>
  DeferredFreeAllocator(const DeferredFreeAllocator<U>&) {
  }  // NOLINT: as allocators convert

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
