// Memory for a while: large, uninitialised, soon given back.
#pragma once

#include <tbb/scalable_allocator.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "core/base/free_later.h"

namespace topk::cpu {

/// An array that keeps its memory when it is asked for less. From oneTBB's
/// allocator, which keeps large blocks for the next request for some time: the
/// system's takes them back at once, and new pages for each request cost a
/// third of a full sort.
template <class T>
class Scratch {
 public:
  static_assert(std::is_trivial_v<T>);

  /// Returns `count` elements of no value. What an earlier call returned is
  /// gone. Throws std::bad_alloc.
  std::span<T> Get(size_t count) {
    if (count > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<T*>(scalable_malloc(count * sizeof(T))));
      if (memory_ == nullptr) throw std::bad_alloc();
      size_ = count;
    }
    return {memory_.get(), count};
  }

 private:
  struct Free {
    void operator()(T* p) const {
      // Above this oneTBB keeps none either.
      constexpr size_t kHuge = size_t{64} << 20;
      if (const size_t bytes = scalable_msize(p); bytes < kHuge) {
        scalable_free(p);
      } else {
        FreeLater(p, bytes, scalable_free);
      }
    }
  };
  std::unique_ptr<T, Free> memory_;
  size_t size_ = 0;
};

}  // namespace topk::cpu
