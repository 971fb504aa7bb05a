// From shapes and strides to bytes, and the strides that an output must not
// have.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/plan/plan.h"

namespace topk {

/// Returns the product of the sizes, or INVALID_ARGUMENT naming the field if
/// one is negative or the product of the nonzero ones exceeds 63 bits.
Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field);

/// Returns the layout of a packed row-major tensor. REQUIRES: CountElements
/// accepts the shape.
Result<Layout> PackedLayout(std::span<const int64_t> shape,
                            const DTypeInfo& type, std::string_view field);

/// Returns the layout of a strided tensor whose elements have `element_bytes`
/// bytes each (types of less than a byte cannot be strided). INVALID_ARGUMENT,
/// naming the field, if the numbers of strides and sizes differ, a stride is
/// outside 0 .. 2^32 - 1, or the length overflows.
Result<Layout> StridedLayout(std::span<const int64_t> shape,
                             std::span<const int64_t> strides,
                             int element_bytes, std::string_view field);

/// The answer to Overlaps().
enum class Overlap { kNo, kYes, kUndecided };

/// The steps that Overlaps() takes at most, some 10 ns each.
inline constexpr int kOverlapSteps = 4000;

/// Returns whether two coordinates of the shape lie at one place: exact for
/// strides that nest and for any two dimensions, otherwise undecided if
/// kOverlapSteps do not tell. REQUIRES: StridedLayout accepts both.
Overlap Overlaps(std::span<const int64_t> shape,
                 std::span<const int64_t> strides);

}  // namespace topk
