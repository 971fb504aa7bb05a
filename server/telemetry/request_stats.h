// What one request takes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk {

/// Where a request's time goes, in this order.
enum class Stage {
  /// From its message's arrival until work on it begins.
  kQueue,
  /// Reading it, checking it, making room for the answer.
  kDecode,
  /// In the backend.
  kCompute,
  /// Making the answer's bytes.
  kEncode,
};

/// Their names, for labels and logs.
inline constexpr std::array<const char*, 4> kStageNames = {"queue", "decode",
                                                           "compute", "encode"};

/// Why a request was refused that was not wrong.
enum class Rejection {
  kInflightBytes,
  kInflightCalls,
  kClientBytes,
  kClientCalls,
  kRate,
  kDeadline,
  kMemory,
  kLimit,
  kUnauthenticated,
  kPermission,
  kDraining,
};

/// Their names, for labels.
inline constexpr std::array<const char*, 11> kRejectionNames = {
    "inflight_bytes", "inflight_calls", "client_bytes",
    "client_calls",   "rate",           "deadline",
    "memory",         "limit",          "unauthenticated",
    "permission",     "draining"};

/// What one request took, for the log and the metrics. A clock of its stages.
struct RequestStats {
  using Clock = std::chrono::steady_clock;

  /// When the request was first heard of; its total time is from there.
  Clock::time_point begun{};
  /// Bytes of the tensor, and of the answer's values and indices.
  int64_t tensor_bytes = 0;
  int64_t answer_bytes = 0;
  /// Nanoseconds by Stage; -1 if it was not reached.
  std::array<int64_t, kStageNames.size()> nanoseconds = {-1, -1, -1, -1};
  /// Whether the engine was asked.
  bool computing = false;
  /// What answered; empty if nothing did.
  std::string backend;
  std::string kernel;

  int64_t& operator[](Stage stage) {
    return nanoseconds[static_cast<size_t>(stage)];
  }
  int64_t operator[](Stage stage) const {
    return nanoseconds[static_cast<size_t>(stage)];
  }

  /// A message has arrived: the time from then on is for the next
  /// RecordStage().
  void Arrive(Clock::time_point when) { stage_start_ = when; }

  /// Adds the time since the last lap to a stage.
  void RecordStage(Stage stage) {
    const Clock::time_point now = Clock::now();
    int64_t& sum = (*this)[stage];
    sum = std::max<int64_t>(sum, 0) +
          std::chrono::nanoseconds(now - stage_start_).count();
    stage_start_ = now;
  }

  /// Adds what an answer says. Of the time since the last lap, the part that
  /// was not in the backend is for decoding.
  void Note(const v1::TopKResponse& answer);

 private:
  Clock::time_point stage_start_{};
};

}  // namespace topk
