// Assembles a streamed response.
#pragma once

#include "client/expected_answer.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Assembles StreamTopK's messages into one response. Rejects data beyond the
/// size that the request implies.
class StreamedAnswer {
 public:
  /// `expected` must outlive this object.
  explicit StreamedAnswer(const ExpectedAnswer& expected)
      : expected_(expected) {}

  /// Adds the next message. Returns BAD_ANSWER if the message is empty or out
  /// of order, or makes an output too long.
  Status Add(v1::TopKResponseChunk& chunk);

  /// Discards all messages. Returns whether there were any.
  bool Clear();

  /// Returns the whole response, or BAD_ANSWER if it is incomplete or wrong.
  Result<v1::TopKResponse> Take();

 private:
  const ExpectedAnswer& expected_;
  bool has_header_ = false;
  v1::TopKResponse response_;
};

}  // namespace topk
