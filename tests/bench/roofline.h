// Measures how fast this machine reads memory. No selection can be faster.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <cstdint>
#include <span>

namespace topk::bench {

/// Reads all bytes, four vectors at a time. The caller must use the result, or
/// the compiler removes the loop.
inline uint64_t ReadAll(std::span<const std::byte> data) {
  // GCC and Clang compile operations on this type to SIMD instructions.
  typedef uint64_t Vector
      __attribute__((vector_size(16), aligned(1), may_alias));
  const auto* const begin = reinterpret_cast<const Vector*>(data.data());
  const Vector* const end = begin + data.size() / sizeof(Vector) / 4 * 4;
  Vector a = {}, b = {}, c = {}, d = {};
  for (const Vector* v = begin; v != end; v += 4) {
    a |= v[0];
    b |= v[1];
    c |= v[2];
    d |= v[3];
  }
  const Vector all = a | b | c | d;
  return all[0] | all[1];
}

/// Reads the data once on the arena's threads. Returns the time in nanoseconds.
inline int64_t TimeToRead(std::span<const std::byte> data,
                          tbb::task_arena& arena) {
  [[maybe_unused]] static volatile uint64_t sink = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto pieces = static_cast<size_t>(arena.max_concurrency());
  if (pieces == 1 || data.size() < (size_t{1} << 19)) {
    sink = ReadAll(data);
  } else {
    arena.execute([&] {
      tbb::parallel_for(size_t{0}, pieces, [&](size_t p) {
        const size_t begin = p * data.size() / pieces;
        sink = ReadAll(
            data.subspan(begin, (p + 1) * data.size() / pieces - begin));
      });
    });
  }
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace topk::bench
