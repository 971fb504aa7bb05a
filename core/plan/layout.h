// From shapes and strides to bytes, and the strides that an output must not
// have.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

/// Returns the layout of a strided tensor of `element_bytes` each; types of
/// less than a byte have none. INVALID_ARGUMENT naming the field if the strides
/// are not as many as the sizes, one is outside 0 .. 2^32 - 1, or the length
/// overflows.
Result<Layout> StridedLayout(std::span<const int64_t> shape,
                             std::span<const int64_t> strides,
                             int element_bytes, std::string_view field);

/// Returns whether two coordinates of the shape lie at one place. Exact; where
/// the strides are not nested it takes time and bits O(the tensor's length).
bool Overlaps(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace topk
