// Large memory goes back to the system on a thread of its own: a GiB of small
// pages takes it some 60 ms, which no answer and no cancellation has to wait
// for.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace topk {

/// From so many bytes on it pays to free later: 2 ms.
inline constexpr size_t kLargeBytes = size_t{32} << 20;

/// Gives the pages of memory whose content is needed no more back to the
/// system, a little at a time: while it takes back much at once, no thread of
/// the process gets memory.
void DropPages(void* memory, size_t bytes) noexcept;

/// Calls `free` with the memory, soon, on one thread for all; here if it cannot
/// be handed over. What is left when the process ends is freed then. Before,
/// the first `bytes` are given to DropPages().
void DeferFree(void* memory, size_t bytes, void (*free)(void*)) noexcept;

/// The same, of an object that needs nothing to be destroyed which may be gone
/// before it.
template <class T>
void DeferFree(std::unique_ptr<T> object) noexcept {
  DeferFree(object.release(), 0, [](void* p) { delete static_cast<T*>(p); });
}

/// std::allocator, but that large memory is freed later.
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
