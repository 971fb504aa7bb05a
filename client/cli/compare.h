// topk run --compare: whether two answers are the same, by bytes.
#pragma once

#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Returns "" if the server's answer has the bytes of the one computed here;
/// otherwise how many elements differ and the first of them, e.g.
///   3 of 20 elements differ, first [2, :] number 1: 0.5 @7, here 0.6 @9
/// REQUIRES: an answer that ExpectedAnswer accepts, its axis, and ours to the
/// same request.
std::string Difference(const v1::TopKResponse& server,
                       const v1::TopKResponse& ours, int axis);

}  // namespace topk::cli
