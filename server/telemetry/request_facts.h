// Properties of a valid or invalid request for metrics and logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns K if it was sent as a value.
std::optional<int64_t> KOf(const v1::TopKRequest& request);

/// Returns the number of elements of the shape, or nothing if it overflows.
std::optional<int64_t> ElementsOf(const v1::TopKRequest& request);

/// Returns the dialect's name, e.g. "onnx", or the number that was sent.
std::string DialectOf(const v1::TopKRequest& request);

/// Returns the element type's name, e.g. "f32", or the number that was sent.
std::string DTypeOf(const v1::TopKRequest& request);

}  // namespace topk
