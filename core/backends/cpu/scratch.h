// Scratch memory: large, uninitialized and short-lived.
#pragma once

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "core/base/deferred_free.h"

namespace topk::cpu {

#ifdef TOPK_SANITIZED
/// The system's allocator, because sanitizers do not know oneTBB's.
struct ScratchHeap {
  static void* Allocate(size_t bytes) { return std::malloc(bytes); }
  static size_t SizeOf(void* p) { return malloc_usable_size(p); }
  static void Free(void* p) { std::free(p); }
};
#else
/// oneTBB's allocator.
struct ScratchHeap {
  static void* Allocate(size_t bytes) { return scalable_malloc(bytes); }
  static size_t SizeOf(void* p) { return scalable_msize(p); }
  static void Free(void* p) { scalable_free(p); }
};
#endif

/// An array that keeps its memory when a smaller size is requested. Uses
/// oneTBB's allocator, which caches large blocks for the next request. The
/// system's allocator returns them to the system at once, and new pages for
/// each request cost a third of a full sort.
template <class T>
class Scratch {
 public:
  static_assert(std::is_trivial_v<T>);

  /// Returns `count` uninitialized elements. Invalidates the results of earlier
  /// calls. Throws std::bad_alloc.
  std::span<T> Get(size_t count) {
    if (count > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<T*>(ScratchHeap::Allocate(count * sizeof(T))));
      if (memory_ == nullptr) throw std::bad_alloc();
      size_ = count;
    }
    return {memory_.get(), count};
  }

 private:
  struct Free {
    void operator()(T* p) const {
      // oneTBB does not cache larger blocks either.
      constexpr size_t kHuge = size_t{64} << 20;
      if (const size_t bytes = ScratchHeap::SizeOf(p); bytes < kHuge) {
        ScratchHeap::Free(p);
      } else {
        DeferFree(p, bytes, ScratchHeap::Free);
      }
    }
  };
  std::unique_ptr<T, Free> memory_;
  size_t size_ = 0;
};

}  // namespace topk::cpu
