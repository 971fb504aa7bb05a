#include "server/telemetry/line_limiter.h"

#include <chrono>
#include <cmath>

namespace topk {

std::optional<int64_t> LineLimiter::Pass(int64_t second) {
  uint64_t window = window_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    const auto now = static_cast<uint32_t>(second);
    const bool same = static_cast<uint32_t>(window >> 32) == now;
    const auto lines = same ? static_cast<uint32_t>(window) : 0;
    if (lines >= static_cast<uint32_t>(per_second_)) {
      suppressed_.fetch_add(1, std::memory_order_relaxed);
      untold_.fetch_add(1, std::memory_order_relaxed);
      return std::nullopt;
    }
    next = uint64_t{now} << 32 | (lines + 1);
  } while (
      !window_.compare_exchange_weak(window, next, std::memory_order_relaxed));
  // Read first: usually there is nothing to take.
  return untold_.load(std::memory_order_relaxed) == 0
             ? 0
             : untold_.exchange(0, std::memory_order_relaxed);
}

std::optional<int64_t> LineLimiter::Pass() {
  return Pass(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::steady_clock::now().time_since_epoch())
                  .count());
}

Sampler::Sampler(double share)
    : step_(static_cast<uint64_t>(std::ceil(share * 0x1p32))) {}

bool Sampler::Pick() {
  if (step_ == 0) return false;
  const uint64_t before = sum_.fetch_add(step_, std::memory_order_relaxed);
  return (before + step_) >> 32 != before >> 32;
}

}  // namespace topk
