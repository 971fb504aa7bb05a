#include "server/threads/active_pollers.h"

#include <algorithm>
#include <cmath>

namespace topk {

ActivePollers::ActivePollers(int pollers)
    : pollers_(pollers), adjusted_(Clock::now()) {}

void ActivePollers::Register() {
  clockid_t clock{};
  pthread_getcpuclockid(pthread_self(), &clock);
  const MutexLock lock(mutex_);
  clocks_.push_back(clock);
}

bool ActivePollers::Park(int poller) {
  const MutexLock lock(mutex_);
  while (!is_closed_ && !IsActive(poller)) changed_.wait(mutex_);
  return IsActive(poller);
}

std::chrono::nanoseconds ActivePollers::CpuTime() const {
  std::chrono::nanoseconds sum{0};
  for (const clockid_t clock : clocks_) {
    timespec time{};
    clock_gettime(clock, &time);
    sum += std::chrono::seconds(time.tv_sec) +
           std::chrono::nanoseconds(time.tv_nsec);
  }
  return sum;
}

int ActivePollers::Next(int active, int most, double load, bool is_behind) {
  // Events wait often for pollers that are busy for a larger share of the time.
  constexpr double kFullLoad = 0.85;
  const bool is_full = is_behind || load > kFullLoad * active;
  if (is_full) return std::min(active + 1, most);
  return load > kFullLoad * (active - 1) ? active : std::max(active - 1, 1);
}

void ActivePollers::Adjust(Clock::time_point now, bool is_behind) {
  if (pollers_ == 1 || now - adjusted_.load() < kPeriod) return;
  const MutexLock lock(mutex_);
  const Clock::duration period = now - adjusted_.load();
  if (period < kPeriod || is_closed_) return;
  adjusted_ = now;
  const std::chrono::nanoseconds cpu = CpuTime();
  const double load = std::chrono::duration<double>(cpu - cpu_) / period;
  cpu_ = cpu;
  const int active = active_;
  const int next = Next(active, pollers_, load, is_behind);
  if (next < active && now - needed_ < kPatience) return;
  needed_ = now;
  active_ = next;
  if (next > active) changed_.notify_all();
}

void ActivePollers::Close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

}  // namespace topk
