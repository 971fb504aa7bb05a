// Parses arrays from lines of numbers.
#pragma once

#include <cstddef>
#include <span>

#include "client/numpy/npy.h"
#include "topk/status.h"

namespace topk {

/// Parses UTF-8 text with one row of decimal numbers per line, e.g. 1, -2.5,
/// 1e3, inf or nan. If there is a comma in the text, the numbers of a row are
/// separated by commas, otherwise by spaces or tabs. A byte-order mark and
/// blank lines are skipped, and so is the first line if `has_header`.
///
/// The elements are f64 (rounded to nearest) if any number has a fraction or an
/// exponent. Otherwise, they are i64 if all integers fit, or u64 if all fit.
/// The shape is [rows, columns], or has one dimension if there is only one row
/// or column. Returns INVALID_ARGUMENT, with the line, the column and the text,
/// if anything else is found.
Result<NpyArray> ParseText(std::span<const std::byte> file, bool has_header);

}  // namespace topk
