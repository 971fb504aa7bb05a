#include "client/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topk::cli {

size_t Histogram::IndexOf(int64_t value) {
  const auto bits =
      static_cast<uint64_t>(std::min(value, (int64_t{1} << kMaxBits) - 1));
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(bits)) - (kBits + 1));
  return (static_cast<size_t>(shift) << kBits) + (bits >> shift);
}

Histogram::Step Histogram::StepAt(size_t index) {
  const size_t power = index >> kBits;
  const size_t shift = power == 0 ? 0 : power - 1;
  const auto low = static_cast<int64_t>((index - (shift << kBits)) << shift);
  return {low, low + (int64_t{1} << shift), 0};
}

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  ++counts_[IndexOf(value)];
  ++count_;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kSteps; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

int64_t Histogram::Percentile(double share) const {
  const auto rank = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  if (rank >= count_) return max_;
  int64_t seen = 0;
  for (size_t i = 0; i < kSteps; ++i) {
    seen += counts_[i];
    if (seen < rank) continue;
    const Step step = StepAt(i);
    return std::min(step.low + (step.high - 1 - step.low) / 2, max_);
  }
  return max_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

std::vector<Histogram::Step> Histogram::Steps() const {
  std::vector<Step> steps;
  for (size_t i = 0; i < kSteps; ++i) {
    if (counts_[i] == 0) continue;
    steps.push_back(StepAt(i));
    steps.back().count = counts_[i];
  }
  return steps;
}

}  // namespace topk::cli
