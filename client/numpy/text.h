// Parses arrays from text: CSV and JSON lines.
#pragma once

#include <cstddef>
#include <span>

#include "client/numpy/npy.h"
#include "core/base/status.h"

namespace topk {

/// Returns whether `file`, which may be just the start of a file, is text.
bool IsText(std::span<const std::byte> file);

/// Parses lines of numbers separated by commas, semicolons, tabs or spaces. A
/// line may be in brackets. The shape is [lines, numbers per line], or has one
/// dimension if there is only one line or one number per line. The elements are
/// i64 if all numbers are integers, otherwise f64. If the first line has no
/// numbers, it is a header and is skipped. Returns INVALID_ARGUMENT, with the
/// invalid line in the message, for other text.
Result<NpyArray> ParseText(std::span<const std::byte> file);

}  // namespace topk
