#include "client/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topk::cli {
namespace {

// Steps 0 to 127 contain one value each. From there on, each range
// [2^n, 2^(n+1)) has 64 equal steps.
size_t StepOf(int64_t value) {
  constexpr int kBits = 7;
  const int shift = std::max(
      0,
      static_cast<int>(std::bit_width(static_cast<uint64_t>(value))) - kBits);
  return (static_cast<size_t>(shift) << 6) +
         static_cast<size_t>(value >> shift);
}

// Returns the lowest value of a step.
int64_t LowOf(size_t step) {
  const size_t shift = std::max(step >> 6, size_t{1}) - 1;
  return static_cast<int64_t>((step - (shift << 6)) << shift);
}

}  // namespace

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  const size_t step = StepOf(std::min(value, (int64_t{1} << 48) - 1));
  if (step >= counts_.size()) counts_.resize(step + 1);
  ++counts_[step];
  ++count_;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

int64_t Histogram::Percentile(double share) const {
  const auto rank = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  if (rank >= count_) return max_;
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) {
      return std::min((LowOf(i) + LowOf(i + 1) - 1) / 2, max_);
    }
  }
  return max_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

}  // namespace topk::cli
