// Prints responses as tables or JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Returns the shortest text that represents element `i` of a contiguous tensor
/// exactly, e.g. 0.1, -3, nan or inf.
std::string ElementText(const v1::Tensor& tensor, int64_t i);

/// Returns the number of elements of a tensor.
int64_t CountOf(const v1::Tensor& tensor);

/// Writes a line per slice with the selected values and their indices, e.g.
/// "[3, :]  0.98 @12  0.97 @40". If there are no slices or more than
/// `max_slices`, a last line says so.
/// REQUIRES: CheckResponse() accepts the response, and `axis` is the request's
/// axis, >= 0.
void PrintTable(const v1::TopKResponse& response, int axis, int64_t max_slices,
                std::ostream& out);

/// Returns {"shape", "values", "indices", ...} with flat row-major lists.
/// Numbers that JSON cannot represent are the strings "nan", "inf" and "-inf".
nlohmann::json ToJson(const v1::TopKResponse& response);

}  // namespace topk::cli
