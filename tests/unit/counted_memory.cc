#include "tests/unit/counted_memory.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <cstdlib>
#include <new>

namespace topk::testing {

std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;

namespace {

void* Counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<int64_t>(malloc_usable_size(p));
  const int64_t live = live_bytes += bytes;
  int64_t peak = peak_bytes;
  while (peak < live && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return p;
}

void Free(void* p) noexcept {
  if (p != nullptr) {
    live_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  }
  std::free(p);
}

}  // namespace
}  // namespace topk::testing

void* operator new(size_t size) {
  return topk::testing::Counted(std::malloc(size));
}
void* operator new(size_t size, std::align_val_t align) {
  const auto step = static_cast<size_t>(align);
  return topk::testing::Counted(
      std::aligned_alloc(step, (size + step - 1) / step * step));
}
// Replace the functions of oneTBB that Scratch uses.
extern "C" {
void* scalable_malloc(size_t size) {
  return topk::testing::Counted(std::malloc(size));
}
void scalable_free(void* p) { topk::testing::Free(p); }
}
void operator delete(void* p) noexcept { topk::testing::Free(p); }
void operator delete(void* p, size_t) noexcept { topk::testing::Free(p); }
void operator delete(void* p, std::align_val_t) noexcept {
  topk::testing::Free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  topk::testing::Free(p);
}
