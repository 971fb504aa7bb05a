// Valid requests from any bytes, for targets that test the computation.
#pragma once

#include <cstdint>

#include "tests/fuzz/input.h"
#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Returns a request that is valid except that it has no data: of OpenVINO, or
/// of DirectML for strides and padding. It has at most `max_elements` elements;
/// a dimension other than the axis may be 0.
v1::TopKRequest RequestFrom(Input& input, int64_t max_elements);

/// Gives the request as much data as its shape needs, made of the rest of the
/// input: repeated, mixed with random bits, or added to an ascending sequence.
void SetData(Input& input, v1::TopKRequest& request);

}  // namespace topk::testing
