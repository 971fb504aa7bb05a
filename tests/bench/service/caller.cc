#include "tests/bench/service/caller.h"

namespace topk::bench {

double ClosedLoop::Run(double seconds, std::vector<double>& microseconds) {
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    Call();
    microseconds.push_back(SecondsSince(start) * 1e6);
  } while (SecondsSince(begin) < seconds);
  return SecondsSince(begin);
}

}  // namespace topk::bench
