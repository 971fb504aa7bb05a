// Parses arrays from lines of numbers.
#pragma once

#include <string_view>

#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Parses UTF-8 text with one row of decimal numbers per line, e.g. 1, -2.5,
/// 1e3, inf or nan. If there is a comma in the text, the numbers of a row are
/// separated by commas, otherwise by spaces or tabs. A byte-order mark, blank
/// lines and, if `has_header`, the first line are skipped.
///
/// If all numbers are integers, the elements are i64 or, if a number does not
/// fit, u64. Otherwise, the elements are f64 (rounded to nearest). The shape is
/// [rows, columns], or has one dimension if there is only one row or column.
/// Returns INVALID_ARGUMENT, with the line, the column and the text, if
/// anything else is found.
Result<v1::Tensor> ParseText(std::string_view text, bool has_header = false);

}  // namespace topk
