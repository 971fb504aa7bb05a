// Finds a lower bound on the k-th greatest key of a row. With a good bound, the
// scan of the row finds only a few more than k elements.
//
// Algorithm: computes the maxima of groups of elements (simd/bound-inl.h), in a
// whole row of medium length or in a sample of a long row. The k-th greatest
// maximum is certainly a lower bound. In a sample of 1/f of the row, the
// maximum with a rank somewhat above k / f is a much better bound, and very
// likely holds. The caller counts the elements that exceed a likely bound, and
// reads the row again with a certain bound if there are fewer than k.
//
// Why: without an estimate, a selection gets its first bound late, the bound is
// poor, and in an ascending row it never helps. A sample of the whole row does
// not depend on the order, and detects a constant row. Sampling costs a few
// percent of a read of the row. A bound that fails costs another read.
//
// Tests: unit/cpu_backend_test.cc.
#pragma once

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/backends/cpu/kernels.h"
#include "core/base/cancellation.h"
#include "core/base/elements.h"

namespace topk::cpu {

/// Whether at least k elements exceed a bound very likely or certainly.
enum class Confidence { kLikely, kCertain };

/// Returns a bound that at least k of the elements exceed, with this
/// confidence. Returns nullopt if there are too few elements for a useful bound
/// or if no bound was found, e.g. after a cancellation. REQUIRES: k >= 1.
template <class Key, bool kFloat>
std::optional<Key> FindBound(const Kernels<Key, kFloat>& kernels,
                             const SortKeyEncoder<Key, kFloat>& encoder,
                             const std::byte* elements, int64_t count,
                             int64_t k, Confidence confidence,
                             const Cancellation* cancellation) {
  constexpr int64_t kChunks = 64;
  // Rows of up to this length are read completely. Longer rows are sampled in
  // chunks, and each chunk fills at least one vector.
  constexpr int64_t kWhole = std::max<int64_t>(
      4096, 2 * kChunks * kVectorBytes / static_cast<int64_t>(sizeof(Key)));
  // A sample has count / kFraction elements, but at least min(kMin, count / 2)
  // and at most kMax, which is small for 8-bit keys: few of them are distinct.
  // For a certain bound, the sample needs more than k elements, so it may have
  // 4 k.
  constexpr int64_t kFraction = 64;
  constexpr int64_t kMin = 8192;
  constexpr int64_t kMax = sizeof(Key) == 1 ? 16384 : 65536;
  constexpr double kDeviations = 1.5;
  if (k > count / 2) return {};
  const bool whole = count <= kWhole;
  const bool certain = whole || confidence == Confidence::kCertain;
  const int64_t least = certain ? std::max(kMin, 4 * k) : kMin;
  const int64_t sampled =
      whole ? count
            : std::clamp(count / kFraction, std::min(least, count / 2),
                         std::max(least, kMax));
  int64_t rank = k;
  if (!certain) {
    const double expected = static_cast<double>(k) *
                            static_cast<double>(sampled) /
                            static_cast<double>(count);
    rank = static_cast<int64_t>(
        std::ceil(expected + kDeviations * std::sqrt(expected) + kDeviations));
  }
  // Do not let a group span several chunks. Otherwise, all group maxima of a
  // sorted row would come from the same chunk.
  const int64_t chunks = whole ? 1 : kChunks;
  const int64_t chunk = sampled / chunks;
  int64_t window = kVectorBytes / static_cast<int64_t>(sizeof(Key));
  if (whole) window *= 4;  // independent accumulators
  while (chunks * window < 2 * rank && window < chunk) window *= 2;
  const int64_t groups = chunks * window;
  if (rank > groups * 7 / 8) return {};
  // With a small k, rows need no allocations.
  absl::InlinedVector<Key, 4096 / sizeof(Key)> maxima(
      static_cast<size_t>(groups));
  // Take one chunk from each section of the row. Its offset in the section is
  // pseudo-random (a linear congruential generator), because chunks at equal
  // distances could all read the same part of a repeating pattern.
  uint64_t random = 0x853C49E6748FEA9B;
  for (int64_t c = 0; c < chunks; ++c) {
    if (IsCancelled(cancellation)) return {};
    const int64_t begin = c * (count / chunks);
    const int64_t spare = count / chunks - chunk;
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int64_t jitter =
        static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(spare + 1));
    kernels.raise_maxima(encoder, At<Key>(elements, begin + jitter), chunk,
                         maxima.data() + c * window, window);
  }
  const Key reached = kernels.kth(maxima.data(), groups, rank, cancellation);
  if (reached == 0) return {};
  return static_cast<Key>(reached - 1);
}

}  // namespace topk::cpu
