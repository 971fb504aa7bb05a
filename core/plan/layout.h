// Computes byte layouts from shapes and strides, and detects overlapping
// elements.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/plan/plan.h"

namespace topk {

/// Returns the product of the sizes, or INVALID_ARGUMENT naming the field if a
/// size is negative or the product of the nonzero sizes exceeds 63 bits.
Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field);

/// Returns the layout of a tensor with these strides or, if there are none, of
/// a contiguous row-major tensor. Returns INVALID_ARGUMENT, naming one of the
/// fields, if the numbers of strides and sizes differ, a stride is outside
/// 0 .. 2^32 - 1, or the length overflows. REQUIRES: CountElements() accepts
/// the shape; elements of less than a byte have no strides.
Result<Layout> MakeLayout(std::span<const int64_t> shape,
                          std::span<const int64_t> strides,
                          const DTypeInfo& type, std::string_view shape_field,
                          std::string_view strides_field);

/// The result of Overlaps().
enum class Overlap { kNo, kYes, kUndecided };

/// The maximum number of steps that Overlaps() takes, about 10 ns each.
inline constexpr int kOverlapSteps = 4000;

/// Returns whether two coordinates have the same position. Exact for nested
/// strides and for any two dimensions; otherwise kUndecided if kOverlapSteps
/// steps do not suffice. REQUIRES: MakeLayout() accepts both.
Overlap Overlaps(std::span<const int64_t> shape,
                 std::span<const int64_t> strides);

}  // namespace topk
