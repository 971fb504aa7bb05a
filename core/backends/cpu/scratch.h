// Scratch memory: large, uninitialized and short-lived.
#pragma once

#include <tbb/scalable_allocator.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "core/base/deferred_free.h"

namespace topk::cpu {

#ifdef TOPK_SANITIZED  // sanitizers do not know oneTBB's allocator
inline constexpr auto kScratchMalloc = std::malloc;
inline constexpr auto kScratchFree = std::free;
#else
inline constexpr auto kScratchMalloc = scalable_malloc;
inline constexpr auto kScratchFree = scalable_free;
#endif

/// An array that keeps its memory when a smaller size is requested. Uses
/// oneTBB's allocator, which caches large blocks for the next request. The
/// system allocator would return the blocks to the OS. Getting new pages for
/// each request would take a third as long as a full sort.
template <class T>
class Scratch {
 public:
  static_assert(std::is_trivial_v<T>);

  /// Returns `count` uninitialized elements. If an earlier call got at least as
  /// many, returns the same memory. Otherwise, invalidates the results of
  /// earlier calls. Throws std::bad_alloc.
  std::span<T> Get(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes > memory_.get_deleter().bytes) {
      memory_.reset();
      memory_.get_deleter().bytes = 0;
      memory_.reset(static_cast<T*>(kScratchMalloc(bytes)));
      if (memory_ == nullptr) throw std::bad_alloc();
      memory_.get_deleter().bytes = bytes;
    }
    return {memory_.get(), count};
  }

 private:
  struct Free {
    size_t bytes = 0;
    void operator()(T* p) const {
      // oneTBB does not cache huge blocks, so freeing them is slow.
      constexpr size_t kHuge = size_t{64} << 20;
      if (bytes < kHuge) {
        kScratchFree(p);
      } else {
        DeferFree(bytes, [p, size = bytes] {
          DropPages(p, size);
          kScratchFree(p);
        });
      }
    }
  };
  std::unique_ptr<T, Free> memory_;
};

}  // namespace topk::cpu
