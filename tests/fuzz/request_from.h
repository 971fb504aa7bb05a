// Valid requests from arbitrary bytes, for targets that test computations.
#pragma once

#include <cstdint>

#include "tests/fuzz/input.h"
#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Returns a valid request without data: an OpenVINO request, or a DirectML
/// request for strides and padding. It has at most `max_elements` elements. A
/// dimension other than the axis may be 0.
v1::TopKRequest RequestFrom(Input& input, int64_t max_elements);

/// Sets as much data as the shape needs, made from the rest of the input:
/// repeated, mixed with random bits, or added to an ascending sequence.
void SetData(Input& input, v1::TopKRequest& request);

}  // namespace topk::testing
