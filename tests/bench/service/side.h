// One server's side of a row: its callers, and how long each call took.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/bench/service/caller.h"

namespace topk::bench {

/// Several alike callers of one server.
class Side {
 public:
  /// Makes the callers; each calls once, uncounted.
  Side(int callers, const std::function<CallerPtr()>& make);

  /// Calls `run` for each caller on a separate thread. `run` returns the
  /// elapsed seconds, as Caller::Run does.
  using RunOne = std::function<double(Caller&, std::vector<double>&)>;
  void Run(const RunOne& run);

  /// Returns the calls in a second.
  double per_second() const;
  /// Returns the microseconds that this part (0 .. 1) of the calls took at
  /// most.
  double Percentile(double part) const;

 private:
  std::vector<CallerPtr> callers_;
  std::vector<double> microseconds_;  // sorted
  double seconds_ = 0;
};

/// Returns callers of topkd's ComputeTopK, raw.
Side TopkdUnary(const std::string& server, const QuestionPtr& question,
                int callers);

/// Returns callers of the null server's ComputeTopK, stock.
Side NullUnary(const std::string& server, const QuestionPtr& question,
               int callers);

/// Lets the sides run in turn, so that all meet the same machine.
void TakeTurns(std::initializer_list<Side*> sides, double seconds_each);

}  // namespace topk::bench
