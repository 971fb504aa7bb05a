// Puts a streamed response together.
#pragma once

#include "client/expected_answer.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Collects StreamTopK's messages into one response, which never exceeds the
/// bytes that the request implies.
class StreamedAnswer {
 public:
  /// `expected` must outlive this.
  explicit StreamedAnswer(const ExpectedAnswer& expected)
      : expected_(expected) {}

  /// Takes the next message. BAD_ANSWER if it is out of order, empty, or
  /// exceeds the bytes that its output has left.
  Status Add(v1::TopKResponseChunk& chunk);

  /// Drops what has arrived. Returns whether there was something.
  bool Clear();

  /// Returns the whole. BAD_ANSWER if it is incomplete or wrong.
  Result<v1::TopKResponse> Take();

 private:
  Status AddHeader(v1::TopKResponse& header);

  const ExpectedAnswer& expected_;
  bool has_header_ = false;
  v1::TopKResponse response_;
};

}  // namespace topk
