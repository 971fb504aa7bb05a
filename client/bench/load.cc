#include "client/bench/load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "client/cli/errors.h"

namespace topk::cli {
namespace {

using Time = std::chrono::nanoseconds;

class MachineClock final : public LoadClock {
 public:
  Time Now() override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  void SleepUntil(Time time) override {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(time));
  }
};

// How often a waiting caller checks whether the load test has ended.
constexpr Time kNap = std::chrono::milliseconds(100);

struct Shared {
  const LoadOptions& options;
  const std::vector<RequestTemplate>& kinds;
  LoadClock& clock;
  const Time start;
  Schedule schedule;
  std::atomic<int64_t> requests = 0;
  std::mutex mutex{};  // guards the members below
  LoadResult result{};
  Time last_sent{0};
  Time last_lag{0};
  Time last_answer{0};
  Time stopped_at = Time::max();  // when the load test ended early

  Time Now() const { return clock.Now() - start; }
};

// Ends the load test on an interrupt. Returns whether the test has ended.
bool Stopped(Shared& shared) {
  if (shared.options.interrupted && shared.options.interrupted()) {
    const std::lock_guard lock(shared.mutex);
    if (!shared.result.interrupted) {
      shared.result.interrupted = true;
      const Time now = shared.Now();
      shared.stopped_at = std::min(shared.stopped_at, now);
      shared.schedule.Stop(now);
    }
  }
  return shared.schedule.stopped();
}

// Waits until `at`. Returns false if the load test ends first.
bool Await(Time at, Shared& shared) {
  for (Time now = shared.Now(); now < at; now = shared.Now()) {
    if (Stopped(shared)) return false;
    shared.clock.SleepUntil(shared.start + std::min(at, now + kNap));
  }
  return true;
}

bool IsRight(const v1::TopKResponse& answer, const v1::TopKResponse& expected) {
  return answer.values().data() == expected.values().data() &&
         answer.indices().data() == expected.indices().data();
}

// Adds a call's responses to the stats. Returns whether the load should
// continue.
bool Judge(const Answers& answers, const RequestTemplate& kind, bool verify,
           LoadStats& stats, Shared& shared) {
  const Status* error = nullptr;
  bool wrong = false;
  for (const Result<Response>& answer : answers) {
    if (!answer.ok()) {
      error = &answer.status();
      ++stats.errors[std::string(CodeName(error->code))];
      stats.retry_hints += error->retry_after.count() > 0 ? 1 : 0;
      // topkd sends a reason with every UNAVAILABLE error. If there is no
      // reason, the connection failed.
      if (error->code == Code::kUnavailable && error->reason.empty()) {
        ++(IsConnectFailure(*error) ? stats.not_connected : stats.lost);
      }
      continue;
    }
    ++stats.answered;
    if (!verify || !kind.expected) continue;
    ++stats.verified;
    wrong |= !IsRight(answer->message(), *kind.expected);
  }
  if (error == nullptr && !wrong) return true;
  const std::lock_guard lock(shared.mutex);
  if (wrong) shared.result.wrong = kind.name;
  if (error != nullptr && shared.result.error.ok()) {
    shared.result.error = *error;
  }
  return !wrong && shared.options.keep_going;
}

void MakeCalls(const Send& send, Shared& shared) {
  // With the default timer slack, the kernel may wake this thread 50 us late.
  prctl(PR_SET_TIMERSLACK, 1);
  const bool open = shared.options.profile.rate > 0;
  std::vector<LoadStats> by_kind(shared.kinds.size());
  LoadStats warmup;
  Time last_sent{0};
  Time last_lag{0};
  Time last_answer{0};
  while (!Stopped(shared)) {
    const auto call = shared.schedule.Next(shared.Now());
    if (!call || !Await(call->at, shared)) break;
    const RequestTemplate& kind = shared.kinds[call->kind];
    last_sent = shared.Now();
    last_lag = last_sent - call->at;
    const Answers answers = send(kind);
    const Time answered = shared.Now();
    if (call->counted) last_answer = answered;
    LoadStats& stats = call->counted ? by_kind[call->kind] : warmup;
    if (std::ranges::all_of(answers, &Result<Response>::ok)) {
      stats.latency.Record((answered - (open ? call->at : last_sent)).count());
    }
    if (!Judge(answers, kind, call->verify, stats, shared)) {
      const std::lock_guard lock(shared.mutex);
      shared.stopped_at = std::min(shared.stopped_at, answered);
      shared.schedule.Stop(answered);
    }
    const auto count = static_cast<int64_t>(answers.size());
    const int64_t requests = shared.requests += count;
    if (shared.options.progress) shared.options.progress(requests);
  }
  const std::lock_guard lock(shared.mutex);
  for (size_t i = 0; i < by_kind.size(); ++i) {
    shared.result.stats[i].Add(by_kind[i]);
  }
  shared.last_answer = std::max(shared.last_answer, last_answer);
  if (last_sent > shared.last_sent) {
    shared.last_sent = last_sent;
    shared.last_lag = last_lag;
  }
}

double Seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

LoadClock& SteadyClock() {
  static MachineClock clock;
  return clock;
}

void LoadStats::Add(const LoadStats& other) {
  latency.Merge(other.latency);
  answered += other.answered;
  verified += other.verified;
  for (const auto& [code, count] : other.errors) errors[code] += count;
  retry_hints += other.retry_hints;
  not_connected += other.not_connected;
  lost += other.lost;
}

LoadResult RunLoad(const LoadOptions& options,
                   const std::vector<RequestTemplate>& kinds,
                   const std::vector<Send>& callers, LoadClock& clock) {
  const LoadProfile& profile = options.profile;
  std::vector<double> weights;
  for (const RequestTemplate& kind : kinds) weights.push_back(kind.weight);
  Shared shared{options, kinds, clock, clock.Now(), Schedule(profile, weights)};
  shared.result.stats.resize(kinds.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(callers.size());
    for (const Send& send : callers) {
      threads.emplace_back(MakeCalls, std::cref(send), std::ref(shared));
    }
  }
  LoadResult& result = shared.result;
  const double counted = Seconds(shared.last_answer) - profile.warmup;
  if (profile.rate == 0) {
    result.seconds = counted;
    return std::move(result);
  }
  const double end =
      std::min(Seconds(shared.stopped_at) - profile.warmup, profile.seconds);
  result.seconds = profile.requests > 0 ? counted : std::max(counted, end);
  result.missed = shared.schedule.missed() * profile.batch;
  result.lag = Seconds(shared.last_lag);
  result.kept_up = result.lag <= result.seconds / 100;
  return std::move(result);
}

}  // namespace topk::cli
