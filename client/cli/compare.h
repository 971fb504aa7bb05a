// topk run --compare: compares two responses byte by byte.
#pragma once

#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Returns "" if both responses have the same bytes. Otherwise counts the
/// elements that differ and shows the first as VALUE @INDEX, e.g. "3 of 20
/// elements differ; the first is element 1 of slice [2, :]: server 0.5 @7,
/// local 0.6 @9". REQUIRES: ExpectedAnswer accepts the server's response,
/// `axis` is the request's axis, >= 0, and `ours` is the local response.
std::string Difference(const v1::TopKResponse& server,
                       const v1::TopKResponse& ours, int axis);

}  // namespace topk::cli
