#include "client/bench/schedule.h"

#include <algorithm>
#include <cmath>

namespace topk::cli {

Schedule::Schedule(const LoadProfile& profile,
                   const std::vector<double>& weights)
    : profile_(profile),
      calls_(profile.requests / profile.batch),
      random_(profile.seed),
      kinds_(weights.begin(), weights.end()),
      end_(profile.warmup + profile.seconds) {}

double Schedule::Gap() {
  const double mean = static_cast<double>(profile_.batch) / profile_.rate;
  return profile_.poisson
             ? std::exponential_distribution<double>(1 / mean)(random_)
             : mean;
}

std::optional<Schedule::Call> Schedule::Next(Time now) {
  const std::lock_guard lock(mutex_);
  const bool open = profile_.rate > 0;
  const double taken = std::chrono::duration<double>(now).count();
  // Skip unsent warm-up calls once the warm-up is over. Otherwise, they would
  // delay the measured calls.
  if (taken >= profile_.warmup) next_ = std::max(next_, profile_.warmup);
  const double at = open ? next_ : taken;
  const bool over = calls_ > 0 ? counted_ == calls_
                               : counted_ > 0 && std::max(at, taken) >= end_;
  if (stopped_ || over) return std::nullopt;
  const bool counted = at >= profile_.warmup;
  counted_ += counted;
  if (open) next_ += Gap();
  return Call{
      std::chrono::duration_cast<Time>(std::chrono::duration<double>(at)),
      kinds_(random_), std::bernoulli_distribution(profile_.verify)(random_),
      counted};
}

void Schedule::Stop(Time at) {
  const std::lock_guard lock(mutex_);
  end_ = std::min(end_, std::chrono::duration<double>(at).count());
  stopped_ = true;
}

bool Schedule::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

int64_t Schedule::missed() const {
  const std::lock_guard lock(mutex_);
  if (profile_.rate == 0 || calls_ > 0 || next_ >= end_) return 0;
  return static_cast<int64_t>(std::ceil((end_ - next_) * profile_.rate /
                                        static_cast<double>(profile_.batch)));
}

}  // namespace topk::cli
