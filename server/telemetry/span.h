// A finished span on its way to the collector.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/telemetry/request_stats.h"
#include "server/telemetry/trace_context.h"

namespace topk {

/// A span, and the children that its stages are.
struct Span {
  using Clock = RequestStats::Clock;
  using Value = std::variant<int64_t, std::string>;

  TraceContext trace;
  /// Whether it is that of a call, whose parent is the client's; otherwise that
  /// of a request of a stream.
  bool of_call = true;
  std::string name;
  Clock::time_point start{};
  Clock::time_point end{};
  /// Whether the server failed, and with which message.
  bool failed = false;
  std::string error;
  std::vector<std::pair<const char*, Value>> attributes;
  /// Nanoseconds by Stage; -1 if the stage was not reached. They are shown one
  /// after the other, until `stages_end`.
  std::array<int64_t, kStageNames.size()> stages = {-1, -1, -1, -1};
  Clock::time_point stages_end{};

  /// Returns the number of spans that are sent for it.
  int64_t Count() const {
    int64_t count = 1;
    for (const int64_t stage : stages) count += stage >= 0 ? 1 : 0;
    return count;
  }
};

}  // namespace topk
