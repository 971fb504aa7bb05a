// Times, sizes and properties of one request, for metrics, logs and traces.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk {

/// The stages of a request, in order.
enum class Stage {
  /// Waiting for a thread, since the message arrived and was decompressed.
  kQueue,
  /// Parsing and validating the request, reading shared memory, allocating the
  /// outputs, and computations that fail.
  kDecode,
  /// Running in the backend.
  kCompute,
  /// Serializing the response, or copying it to shared memory.
  kEncode,
};

/// The names of the stages, for labels, logs and spans.
inline constexpr std::array<const char*, 4> kStageNames = {"queue", "decode",
                                                           "compute", "encode"};

/// The sizes and times of one request.
struct RequestStats {
  using Clock = std::chrono::steady_clock;

  /// When the request arrived.
  Clock::time_point begun{};
  /// Bytes of the input, and of the output's values and indices.
  int64_t tensor_bytes = 0;
  int64_t answer_bytes = 0;
  /// nullopt if the request is invalid or was not validated.
  std::optional<int64_t> k;
  /// Nanoseconds by Stage; -1 if the stage was not reached.
  std::array<int64_t, kStageNames.size()> nanoseconds = {-1, -1, -1, -1};
  /// Whether the engine was called.
  bool computing = false;
  /// The backend and kernel that computed the result; empty if none did.
  std::string backend;
  std::string kernel;

  int64_t& operator[](Stage stage) {
    return nanoseconds[static_cast<size_t>(stage)];
  }
  int64_t operator[](Stage stage) const {
    return nanoseconds[static_cast<size_t>(stage)];
  }

  /// Returns the total time of all stages, or 0 if no stage was reached.
  int64_t TotalNanoseconds() const {
    int64_t sum = 0;
    for (const int64_t stage : nanoseconds) sum += std::max<int64_t>(stage, 0);
    return sum;
  }

  /// Starts the next stage at `when`, the time when a message arrived.
  void Arrive(Clock::time_point when) { stage_start_ = when; }

  /// Adds to `stage` the time since the last RecordStage() or Arrive().
  void RecordStage(Stage stage) {
    const Clock::time_point now = Clock::now();
    int64_t& sum = (*this)[stage];
    sum = std::max<int64_t>(sum, 0) +
          std::chrono::nanoseconds(now - stage_start_).count();
    stage_start_ = now;
  }

  /// Returns the end time of the last recorded stage.
  Clock::time_point stages_end() const { return stage_start_; }

  /// Records the sizes and the execution info of a response. Splits the time
  /// since the last stage: the time in the backend is kCompute, the rest is
  /// kDecode.
  void AddResponse(const v1::TopKResponse& answer);

 private:
  Clock::time_point stage_start_{};
};

/// Maximum bytes of client-supplied text and error messages in logs and spans.
inline constexpr size_t kMaxText = 256;
inline constexpr size_t kMaxErrorText = 1024;

/// Returns the number of elements of the shape, or nullopt if it overflows.
std::optional<int64_t> ElementsOf(const v1::TopKRequest& request);

/// The value of a request's property.
using PropertyValue = std::variant<int64_t, std::string>;

/// Returns the known properties of a request, each with its name in logs. The
/// request may be invalid. Text values have at most kMaxText bytes and may
/// contain any characters.
std::vector<std::pair<const char*, PropertyValue>> PropertiesOf(
    const v1::TopKRequest& request, const RequestStats& stats);

}  // namespace topk
