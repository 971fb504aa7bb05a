#include "server/threads/active_pollers.h"

#include <algorithm>

namespace topk {

ActivePollers::ActivePollers(int pollers)
    : most_(pollers),
      adjusted_(Clock::now()),
      pollers_(static_cast<size_t>(pollers)) {}

void ActivePollers::Register(int poller) {
  clockid_t clock{};
  pthread_getcpuclockid(pthread_self(), &clock);
  const MutexLock lock(mutex_);
  pollers_[static_cast<size_t>(poller)].clock = clock;
}

bool ActivePollers::Park(int poller) {
  const MutexLock lock(mutex_);
  Poller& self = pollers_[static_cast<size_t>(poller)];
  while (!is_closed_ && !IsActive(poller)) self.wake.wait(mutex_);
  return IsActive(poller);
}

std::chrono::nanoseconds ActivePollers::CpuTime(int pollers) const {
  std::chrono::nanoseconds sum{0};
  for (int i = 0; i < pollers; ++i) {
    const Poller& poller = pollers_[static_cast<size_t>(i)];
    timespec time{};
    if (poller.clock) clock_gettime(*poller.clock, &time);
    sum += std::chrono::seconds(time.tv_sec) +
           std::chrono::nanoseconds(time.tv_nsec);
  }
  return sum;
}

int ActivePollers::Next(int active, int most, double load, bool is_behind) {
  // Events wait often for pollers that are busy for a larger share of the time.
  constexpr double kFullLoad = 0.85;
  const bool is_full = is_behind || load > kFullLoad * active;
  const bool is_needed = load > kFullLoad * (active - 1);
  const int next = is_full ? active + 1 : is_needed ? active : active - 1;
  return std::clamp(next, 1, most);
}

void ActivePollers::Adjust(Clock::time_point now, int64_t calls,
                           bool is_behind) {
  if (most_ == 1 || now - adjusted_.load() < kPeriod) return;
  const MutexLock lock(mutex_);
  const Clock::duration period = now - adjusted_.load();
  if (period < kPeriod || is_closed_) return;
  adjusted_ = now;
  const int active = active_;
  const std::chrono::nanoseconds cpu = CpuTime(active);
  const double load = std::chrono::duration<double>(cpu - cpu_) / period;
  cpu_ = cpu;
  const int64_t most_useful = is_behind ? most_ : calls;
  const auto most = static_cast<int>(
      std::clamp(most_useful, int64_t{1}, static_cast<int64_t>(most_)));
  const int next = Next(active, most, load, is_behind);
  if (next < active && now - needed_ < kPatience) return;
  needed_ = now;
  if (next == active) return;
  active_ = next;
  cpu_ = CpuTime(next);
  if (next > active) pollers_[static_cast<size_t>(active)].wake.notify_one();
}

void ActivePollers::Close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  for (Poller& poller : pollers_) poller.wake.notify_one();
}

}  // namespace topk
