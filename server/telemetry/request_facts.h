// What metrics and logs want to know of a request, right or wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns K if it was sent as a value.
std::optional<int64_t> KOf(const v1::TopKRequest& request);

/// Returns how many elements the shape has, unless no number has so many.
std::optional<int64_t> ElementsOf(const v1::TopKRequest& request);

/// Returns the dialect's name, e.g. "onnx", or the number that was sent.
std::string DialectOf(const v1::TopKRequest& request);

/// Returns the element type's name, e.g. "f32", or the number that was sent.
std::string DTypeOf(const v1::TopKRequest& request);

}  // namespace topk
