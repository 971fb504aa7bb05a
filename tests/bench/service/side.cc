#include "tests/bench/service/side.h"

#include <algorithm>
#include <future>

#include "tests/bench/service/wire.h"

namespace topk::bench {

Side::Side(int callers, const std::function<CallerPtr()>& make) {
  std::vector<double> uncounted;
  for (int i = 0; i < callers; ++i) {
    callers_.push_back(make());
    callers_.back()->Run(0, uncounted);
  }
}

void Side::Run(const RunOne& run) {
  std::vector<std::vector<double>> times(callers_.size());
  std::vector<std::future<double>> running;
  for (size_t i = 0; i < callers_.size(); ++i) {
    running.push_back(std::async(
        std::launch::async, [&, i] { return run(*callers_[i], times[i]); }));
  }
  double longest = 0;
  for (auto& one : running) longest = std::max(longest, one.get());
  seconds_ += longest;
  for (const auto& some : times) {
    microseconds_.insert(microseconds_.end(), some.begin(), some.end());
  }
  std::sort(microseconds_.begin(), microseconds_.end());
}

double Side::per_second() const {
  return static_cast<double>(microseconds_.size()) / seconds_;
}

double Side::Percentile(double part) const {
  const auto last = static_cast<double>(microseconds_.size() - 1);
  return microseconds_[static_cast<size_t>(part * last)];
}

Side TopkdUnary(const std::string& server, const QuestionPtr& question,
                int callers) {
  return Side(callers, [&] {
    return RawUnary(Connect(server), question, RequestBytes(*question));
  });
}

Side NullUnary(const std::string& server, const QuestionPtr& question,
               int callers) {
  return Side(callers, [&] {
    return StockUnary(Connect(server), question, Answers::kNone);
  });
}

void TakeTurns(std::initializer_list<Side*> sides, double seconds_each) {
  constexpr int kTurns = 6;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Side* const side : sides) {
      side->Run([&](Caller& caller, std::vector<double>& microseconds) {
        return caller.Run(seconds_each / kTurns, microseconds);
      });
    }
  }
}

}  // namespace topk::bench
