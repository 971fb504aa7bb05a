// Whether an answer can be what was asked for, before it is read.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// What was asked for: both outputs, packed, of k elements along an axis.
struct Question {
  DType dtype;
  /// The input's.
  std::span<const int64_t> shape;
  /// A dimension of the input, or negative to count from the back.
  int64_t axis = -1;
  int64_t k = 0;
  /// What was added to every index.
  int64_t index_offset = 0;
};

/// Returns the axis as a dimension, 0 .. rank-1, if the answer has the types,
/// shapes and lengths that the question implies, and every index lies on the
/// axis; INTERNAL otherwise. A server may be wrong, or not ours: nothing of its
/// answer is a position in memory until this has passed it. Whether the
/// elements are the right ones is not checked.
Result<int> CheckAnswer(const Question& question,
                        const v1::TopKResponse& answer);

}  // namespace topk::cli
