// Limits on logged lines: a rate per second, and a sampling fraction.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace topk {

/// Admits a fixed number of lines per second. Thread-safe, without a lock.
class LineLimiter {
 public:
  explicit LineLimiter(int per_second) : per_second_(per_second) {}

  /// Whether a line may pass in a second of some clock that does not go back.
  /// If so, returns how many did not since the last that did.
  std::optional<int64_t> Pass(int64_t second);
  /// The same, now.
  std::optional<int64_t> Pass();

  /// How many did not pass, in all.
  int64_t suppressed() const { return suppressed_; }

 private:
  const int per_second_;
  /// The second in the upper half, its lines in the lower.
  std::atomic<uint64_t> window_ = 0;
  std::atomic<int64_t> suppressed_ = 0;
  /// Those of which no line has told yet.
  std::atomic<int64_t> untold_ = 0;
};

/// Picks a share of events, evenly and always the same: of 0.25 every fourth.
/// Thread-safe, without a lock.
class Sampler {
 public:
  /// `share` is 0 .. 1.
  explicit Sampler(double share);

  /// Whether this event is picked.
  bool Pick();

  /// Whether any is.
  bool on() const { return step_ != 0; }

 private:
  const uint64_t step_;
  std::atomic<uint64_t> sum_ = 0;
};

}  // namespace topk
