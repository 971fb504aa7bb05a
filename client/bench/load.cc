#include "client/bench/load.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topk::cli {
namespace {

double Seconds(Load::Time time) {
  return std::chrono::duration<double>(time).count();
}

Load::Time Rounded(double seconds) {
  return Load::Time(std::llround(seconds * 1e9));
}

void Count(const Outcome& outcome, Load::Time latency, bool verified,
           LoadStats& stats) {
  for (const int64_t time : outcome.compute) stats.compute.Record(time);
  const auto answers = static_cast<int64_t>(outcome.compute.size());
  if (verified) stats.verified += answers;
  if (outcome.retried) {
    stats.retried += answers + static_cast<int64_t>(outcome.errors.size());
  }
  if (answers > 0) stats.latency.Record(latency.count());
  for (const Status& error : outcome.errors) {
    ++stats.errors[std::string(CodeName(error.code))];
    stats.retry_hints += error.retry_after.count() > 0 ? 1 : 0;
  }
}

}  // namespace

int64_t LoadStats::failed() const {
  int64_t sum = 0;
  for (const auto& [code, count] : errors) sum += count;
  return sum;
}

Load::Load(const LoadProfile& profile, bool keep_going)
    : profile_(profile),
      keep_going_(keep_going),
      calls_(profile.requests / profile.batch),
      random_(profile.seed) {}

std::optional<Load::Call> Load::Next(Time now) {
  const std::lock_guard lock(mutex_);
  const bool open = profile_.rate > 0;
  // Skip unsent warm-up calls once the warm-up is over. Otherwise, they would
  // delay the measured calls.
  const Time begin = Rounded(profile_.warmup);
  if (open && now >= begin) {
    next_ = std::max(next_, CallsBefore(profile_.warmup));
  }
  const Time at = open ? Rounded(Due()) : now;
  const bool over = calls_ > 0
                        ? counted_ == calls_
                        : counted_ > 0 && std::max(at, now) >=
                                              begin + Rounded(profile_.seconds);
  if (stopped_at_ != Time::max() || over) return std::nullopt;
  const bool counted = at >= begin;
  counted_ += counted;
  next_ +=
      profile_.poisson ? std::exponential_distribution<double>(1)(random_) : 1;
  return Call{at, std::bernoulli_distribution(profile_.verify)(random_),
              counted};
}

void Load::Record(const Call& call, Time sent, Time answered,
                  const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  const bool open = profile_.rate > 0;
  if (open && sent > last_sent_) {
    last_sent_ = sent;
    result_.lag = Seconds(sent - call.at);
  }
  const Time latency = answered - (open ? call.at : sent);
  Count(outcome, latency, call.verify, recent_);
  if (call.counted) {
    Count(outcome, latency, call.verify, result_.stats);
    last_answer_ = std::max(last_answer_, answered);
  }
  result_.wrong |= outcome.wrong;
  if (!outcome.errors.empty() && result_.error.ok()) {
    result_.error = outcome.errors.back();
  }
  if (outcome.wrong || (!outcome.errors.empty() && !keep_going_)) {
    stopped_at_ = std::min(stopped_at_, answered);
  }
}

void Load::Interrupt(Time now) {
  const std::lock_guard lock(mutex_);
  result_.interrupted = true;
  stopped_at_ = std::min(stopped_at_, now);
}

bool Load::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_at_ != Time::max();
}

LoadStats Load::TakeRecent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recent_, {});
}

LoadResult Load::Result() const {
  const std::lock_guard lock(mutex_);
  LoadResult result = result_;
  result.seconds = Seconds(last_answer_) - profile_.warmup;
  if (profile_.rate == 0) return result;
  const double end =
      std::min(Seconds(stopped_at_), profile_.warmup + profile_.seconds);
  if (calls_ == 0) {
    result.seconds = std::max(result.seconds, end - profile_.warmup);
    if (Due() < end) {
      // The next request is as late as the end of the load.
      result.lag = std::max(result.lag, end - Due());
      result.missed = profile_.batch *
                      static_cast<int64_t>(std::ceil(CallsBefore(end) - next_));
    }
  }
  result.kept_up = result.lag <= result.seconds / 100;
  return result;
}

}  // namespace topk::cli
