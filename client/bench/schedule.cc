#include "client/bench/schedule.h"

#include <algorithm>
#include <cmath>

namespace topk::cli {

Schedule::Schedule(const Pace& pace, const std::vector<double>& weights)
    : pace_(pace),
      calls_(pace.requests / pace.batch),
      random_(pace.seed),
      kinds_(weights.begin(), weights.end()),
      end_(pace.warmup + pace.seconds) {}

double Schedule::Gap() {
  const double mean = static_cast<double>(pace_.batch) / pace_.rate;
  return pace_.poisson
             ? std::exponential_distribution<double>(1 / mean)(random_)
             : mean;
}

std::optional<Schedule::Call> Schedule::Next(Time now) {
  const std::lock_guard lock(mutex_);
  const bool open = pace_.rate > 0;
  const double taken = std::chrono::duration<double>(now).count();
  // What the warm-up could not send shall not delay what is counted.
  if (taken >= pace_.warmup) next_ = std::max(next_, pace_.warmup);
  const double at = open ? next_ : taken;
  const bool over = calls_ > 0 ? counted_ == calls_
                               : counted_ > 0 && std::max(at, taken) >= end_;
  if (stopped_ || over) return std::nullopt;
  const bool counted = at >= pace_.warmup;
  counted_ += counted;
  if (open) next_ += Gap();
  return Call{
      std::chrono::duration_cast<Time>(std::chrono::duration<double>(at)),
      kinds_(random_), std::bernoulli_distribution(pace_.verify)(random_),
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
  if (pace_.rate == 0 || calls_ > 0 || next_ >= end_) return 0;
  return static_cast<int64_t>(std::ceil((end_ - next_) * pace_.rate /
                                        static_cast<double>(pace_.batch)));
}

}  // namespace topk::cli
