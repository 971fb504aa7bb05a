// Estimates a lower bound on the k-th greatest key of a row. With a good bound,
// the scan of the row finds only a few more than k elements.
//
// Algorithm: computes the maxima of groups of elements (simd/bound-inl.h), in a
// whole row of medium length or in a sample of a long row. In a whole row, the
// k-th greatest maximum is a lower bound. In a sample of 1/f of the row, the
// maximum with a rank somewhat above k / f is very likely a lower bound. The
// caller counts the elements that are not below this maximum, and retries with
// a lesser maximum if there are fewer than k.
//
// Why: without an estimate, a selection gets its first bound late, the bound is
// poor, and in an ascending row it never helps. A sample of the whole row does
// not depend on the order, and detects a constant row. Sampling costs a few
// percent of a read of the row. A bound that fails costs another read.
//
// Tests: unit/row_feed_test.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/backends/cpu/kernels.h"
#include "core/base/elements.h"

namespace topk::cpu {

/// Estimates lower bounds on the k-th greatest key of a row or part of a row.
template <class Key, bool kFloat>
class Bounds {
 public:
  /// `kernels` and `encoder` must outlive this object.
  Bounds(const Kernels<Key, kFloat>& kernels,
         const SortKeyEncoder<Key, kFloat>& encoder)
      : kernels_(kernels), encoder_(encoder) {}

  /// Samples a row from which k elements will be selected. REQUIRES: 1 <= k <=
  /// count.
  void Sample(const std::byte* elements, int64_t count, int64_t k) {
    const auto wanted = static_cast<double>(k);
    const bool whole = count <= kWhole;
    const int64_t sampled =
        whole ? count
              : std::clamp(count / kFraction, std::min(kMin, count / 2), kMax);
    double rank = wanted;
    if (!whole) {
      const double expected =
          wanted * static_cast<double>(sampled) / static_cast<double>(count);
      rank = expected + kDeviations * std::sqrt(expected) + kDeviations;
    }
    rank_ = static_cast<int64_t>(std::ceil(rank));
    // Do not let a group span several chunks. Otherwise, all group maxima of a
    // sorted row would come from the same chunk.
    const int64_t chunks = whole ? 1 : kChunks;
    int64_t window = kVectorBytes / static_cast<int64_t>(sizeof(Key));
    if (whole) window *= 4;  // independent accumulators
    while (chunks * window < 2 * rank_ && window < sampled / chunks) {
      window *= 2;
    }
    maxima_.assign(static_cast<size_t>(chunks * window), Key{0});
    // Take one chunk from each section of the row. Its offset in the section is
    // pseudo-random (a linear congruential generator), because chunks at equal
    // distances could all read the same part of a repeating pattern.
    const int64_t chunk = sampled / chunks;
    uint64_t random = 0x853C49E6748FEA9B;
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t begin = c * (count / chunks);
      const int64_t spare = count / chunks - chunk;
      random = random * 6364136223846793005u + 1442695040888963407u;
      const int64_t jitter = static_cast<int64_t>(
          (random >> 33) % static_cast<uint64_t>(spare + 1));
      kernels_.raise_maxima(encoder_, At<Key>(elements, begin + jitter), chunk,
                            maxima_.data() + c * window, window);
    }
  }

  /// Returns the next estimate, from high to low, or nullopt if none is left.
  std::optional<Key> Next() {
    const auto groups = static_cast<int64_t>(maxima_.size());
    if (rank_ > groups * 7 / 8) return std::nullopt;
    const Key key = kernels_.kth(maxima_.data(), groups, rank_);
    rank_ *= 8;
    if (key == 0) return std::nullopt;
    return key;
  }

 private:
  static constexpr int64_t kChunks = 64;
  /// Rows of up to this length are read completely. Longer rows are sampled in
  /// chunks, and each chunk fills at least one vector.
  static constexpr int64_t kWhole = std::max<int64_t>(
      4096, 2 * kChunks * kVectorBytes / static_cast<int64_t>(sizeof(Key)));
  /// A sample has count / kFraction elements, but at least min(kMin, count / 2)
  /// and at most kMax, which is small for 8-bit keys: few of them are distinct.
  static constexpr int64_t kFraction = 64;
  static constexpr int64_t kMin = 8192;
  static constexpr int64_t kMax = sizeof(Key) == 1 ? 16384 : 65536;
  static constexpr double kDeviations = 1.5;

  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat>& encoder_;
  int64_t rank_ = 0;
  std::vector<Key> maxima_;
};

}  // namespace topk::cpu
