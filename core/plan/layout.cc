#include "core/plan/layout.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr int64_t kMaxStride = std::numeric_limits<uint32_t>::max();

Status Overflow(std::string_view field) {
  return InvalidArgument("SIZE_OVERFLOW", field,
                         "the tensor's size exceeds 2^63 - 1 bytes");
}

std::string PathOf(std::string_view field, size_t i) {
  return StrCat(field, "[", i, "]");
}

}  // namespace

Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field) {
  int64_t nonzero = 1;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      return InvalidArgument("NEGATIVE_DIMENSION", PathOf(field, i),
                             StrCat("dimension ", i, " has size ", shape[i],
                                    "; it must not be negative"));
    }
    empty |= shape[i] == 0;
    if (shape[i] != 0 && !CheckedMultiply(nonzero, shape[i], &nonzero)) {
      return Overflow(PathOf(field, i));
    }
  }
  return empty ? 0 : nonzero;
}

Result<Layout> MakeLayout(std::span<const int64_t> shape,
                          std::span<const int64_t> strides,
                          const DTypeInfo& type, std::string_view shape_field,
                          std::string_view strides_field) {
  if (!strides.empty() && strides.size() != shape.size()) {
    return InvalidArgument(
        "STRIDES_RANK", strides_field,
        StrCat("there are ", strides.size(), " strides for ", shape.size(),
               " dimensions; pass one for each"));
  }
  Layout layout;
  layout.packed = type.packed();
  layout.given_strides.assign(strides.begin(), strides.end());
  layout.strides.resize(shape.size());
  // Treat sizes of 0 as 1: an empty tensor's strides do not matter. The strides
  // cannot overflow, because CountElements() limits the product.
  int64_t stride = 1;
  int64_t count = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    layout.contiguous &=
        strides.empty() || shape[i] == 1 || strides[i] == stride;
    stride *= std::max<int64_t>(shape[i], 1);
    count *= shape[i] == 0 ? 0 : 1;
  }
  if (strides.empty()) {
    if (CheckedBytes(type, stride * count, &layout.bytes)) return layout;
    return Overflow(shape_field);
  }
  if (!layout.contiguous) layout.strides = layout.given_strides;
  int64_t last = 0;  // the position of the last element
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0 || strides[i] > kMaxStride) {
      return InvalidArgument(
          "STRIDE_RANGE", PathOf(strides_field, i),
          StrCat("stride ", strides[i], " is outside 0 .. 4294967295 (UINT)"));
    }
    int64_t span = 0;
    if (!CheckedMultiply(std::max<int64_t>(shape[i] - 1, 0), strides[i],
                         &span) ||
        !CheckedAdd(last, span, &last)) {
      return Overflow(PathOf(strides_field, i));
    }
  }
  if (!CheckedAdd(last, 1, &last) ||
      !CheckedMultiply(last, type.bytes, &layout.bytes)) {
    return Overflow(strides_field);
  }
  return layout;
}

Overlap Overlaps(std::span<const int64_t> shape,
                 std::span<const int64_t> strides) {
  struct Dimension {
    int64_t stride;
    int64_t size;
  };
  if (std::ranges::find(shape, 0) != shape.end()) return Overlap::kNo;
  std::vector<Dimension> dimensions;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (strides[i] == 0) return Overlap::kYes;
    dimensions.push_back({strides[i], shape[i]});
  }
  std::ranges::sort(dimensions, {}, &Dimension::stride);
  bool nested = true;
  Size count = 1;
  Size last = 0;  // the position of the last element so far
  for (const auto& [stride, size] : dimensions) {
    nested &= Size(stride) > last;
    count = count * size;
    last += Size(size - 1) * stride;
  }
  if (nested) return Overlap::kNo;
  // If there are more elements than positions, some elements must overlap.
  if (count > last + 1) return Overlap::kYes;
  if (count > kMaxComparedElements) return Overlap::kUndecided;
  std::vector<int64_t> positions = {0};
  for (const auto& [stride, size] : dimensions) {
    const size_t before = positions.size();
    for (int64_t step = 1; step < size; ++step) {
      for (size_t i = 0; i < before; ++i) {
        positions.push_back(positions[i] + step * stride);
      }
    }
  }
  std::ranges::sort(positions);
  return std::ranges::adjacent_find(positions) == positions.end()
             ? Overlap::kNo
             : Overlap::kYes;
}

}  // namespace topk
