#include "client/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topk::cli {
namespace {

// Returns the width of the histogram step that contains `value`. The width is 1
// below 128. From 128 on, each range [2^n, 2^(n+1)) has 64 equal steps.
int64_t WidthAt(int64_t value) {
  constexpr int kBits = 7;
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
  return int64_t{1} << std::max(0, bits - kBits);
}

}  // namespace

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  const int64_t kept = std::min(value, (int64_t{1} << 48) - 1);
  ++counts_[kept - kept % WidthAt(kept)];
  ++count_;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

void Histogram::Merge(const Histogram& other) {
  for (const auto& [low, count] : other.counts_) counts_[low] += count;
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

int64_t Histogram::Percentile(double share) const {
  const auto rank = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  if (rank >= count_) return max_;
  int64_t seen = 0;
  for (const auto& [low, count] : counts_) {
    seen += count;
    if (seen >= rank) return std::min(low + (WidthAt(low) - 1) / 2, max_);
  }
  return max_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

std::vector<Histogram::Step> Histogram::Steps() const {
  std::vector<Step> steps;
  for (const auto& [low, count] : counts_) {
    steps.push_back({low, low + WidthAt(low), count});
  }
  return steps;
}

}  // namespace topk::cli
