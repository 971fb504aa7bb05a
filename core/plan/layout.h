// Computes byte layouts from shapes and strides, and detects overlapping
// elements.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/plan/plan.h"
#include "topk/status.h"

namespace topk {

/// Returns the product of the sizes. Returns INVALID_ARGUMENT, naming `field`,
/// if a size is negative or the product of the nonzero sizes exceeds 2^63 - 1.
Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field);

/// Returns the layout of a tensor. Without strides, the tensor is contiguous
/// and row-major. Returns INVALID_ARGUMENT if the numbers of strides and sizes
/// differ, a stride is outside 0 .. 2^32 - 1, or the length overflows.
/// REQUIRES: CountElements() accepts `shape`, and `strides` is empty if
/// elements are smaller than a byte.
Result<Layout> MakeLayout(std::span<const int64_t> shape,
                          std::span<const int64_t> strides,
                          const DTypeInfo& type, std::string_view shape_field,
                          std::string_view strides_field);

/// The result of Overlaps().
enum class Overlap { kNo, kYes, kUndecided };

/// The maximum number of elements whose positions Overlaps() compares. This
/// takes up to 30 us.
inline constexpr int64_t kMaxComparedElements = 1024;

/// Returns whether any two elements share a position. Returns kUndecided only
/// if there are more than kMaxComparedElements elements, and a stride does not
/// exceed the extent of all dimensions with smaller strides. REQUIRES:
/// MakeLayout() accepts `shape` and `strides`.
Overlap Overlaps(std::span<const int64_t> shape,
                 std::span<const int64_t> strides);

}  // namespace topk
