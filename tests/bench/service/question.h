// The request of the callers and its correct response.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "inference/grpc_service.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk::bench {

/// The k largest of a tensor of f32 by ONNX-11.
struct Question {
  /// The request; its tensor has no source.
  v1::TopKRequest header;
  /// The tensor's elements, repeated `repeats` times.
  std::vector<float> elements;
  int64_t repeats = 1;
  /// The response that the engine computes in this process.
  v1::TopKResponse answer;

  /// Returns the bytes of `elements`.
  std::span<const std::byte> data() const {
    return std::as_bytes(std::span(elements));
  }
  /// Returns the size of the tensor in bytes.
  int64_t bytes() const {
    return static_cast<int64_t>(data().size()) * repeats;
  }
};

/// Shared by the callers: gRPC borrows the elements of a call in flight.
using QuestionPtr = std::shared_ptr<const Question>;

/// Returns a question about `bytes` bytes of random elements, repeated.
QuestionPtr MakeQuestion(int64_t bytes, int64_t k = 10, int64_t repeats = 1);

/// Keeps a question and checks answers to it, byte for byte.
class SpotCheck {
 public:
  explicit SpotCheck(QuestionPtr question) : question_(std::move(question)) {}

  /// Counts an answer and returns whether it is to be checked: the first and
  /// every 16th are. The others need no parsing, which is not the server's
  /// work.
  bool IsDue() { return counted_++ % 16 == 0; }

  /// Throws std::runtime_error if an answer is wrong.
  void Check(const v1::TopKResponse& answer) const;
  void Check(const inference::ModelInferResponse& answer) const;

 private:
  void Check(std::string_view values, std::string_view indices) const;

  const QuestionPtr question_;
  int64_t counted_ = 0;
};

}  // namespace topk::bench
