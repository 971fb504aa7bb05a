#include "core/plan/layout.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr int64_t kMaxStride = std::numeric_limits<uint32_t>::max();

Status Overflow(std::string_view field) {
  return InvalidArgument("SIZE_OVERFLOW", field,
                         "the tensor's size exceeds 63 bits");
}

}  // namespace

Result<int64_t> CountElements(std::span<const int64_t> shape,
                              std::string_view field) {
  int64_t nonzero = 1;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string path = Cat(field, "[", i, "]");
    if (shape[i] < 0) {
      return InvalidArgument(
          "NEGATIVE_DIMENSION", path,
          Cat("dimension ", i, " is ", shape[i], "; it must not be negative"));
    }
    empty |= shape[i] == 0;
    if (shape[i] != 0 && !CheckedMultiply(nonzero, shape[i], &nonzero)) {
      return Overflow(path);
    }
  }
  return empty ? 0 : nonzero;
}

Result<Layout> PackedLayout(std::span<const int64_t> shape,
                            const DTypeInfo& type, std::string_view field) {
  Layout layout;
  layout.strides.resize(shape.size());
  // Sizes of 0 count as 1 here: no element uses the stride, and CountElements
  // has bounded the product of the others.
  int64_t stride = 1;
  int64_t count = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
    count *= shape[i] == 0 ? 0 : 1;
  }
  if (!CheckedBytes(type, stride * count, &layout.bytes)) {
    return Overflow(field);
  }
  layout.padded_bytes = layout.bytes;
  return layout;
}

Result<Layout> StridedLayout(std::span<const int64_t> shape,
                             std::span<const int64_t> strides,
                             int element_bytes, std::string_view field) {
  if (strides.size() != shape.size()) {
    return InvalidArgument(
        "STRIDES_RANK", field,
        Cat(strides.size(), " strides for ", shape.size(), " dimensions"));
  }
  Layout layout;
  layout.strides.assign(strides.begin(), strides.end());
  layout.packed = false;
  int64_t last = 0;  // the position of the last element
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string path = Cat(field, "[", i, "]");
    if (strides[i] < 0 || strides[i] > kMaxStride) {
      return InvalidArgument(
          "STRIDE_RANGE", path,
          Cat("stride ", strides[i], " is outside 0 .. 4294967295 (UINT)"));
    }
    int64_t span = 0;
    if (!CheckedMultiply(std::max<int64_t>(shape[i] - 1, 0), strides[i],
                         &span) ||
        !CheckedAdd(last, span, &last)) {
      return Overflow(path);
    }
  }
  if (!CheckedAdd(last, 1, &last) ||
      !CheckedMultiply(last, element_bytes, &layout.bytes)) {
    return Overflow(field);
  }
  layout.padded_bytes = layout.bytes;
  return layout;
}

bool Overlaps(std::span<const int64_t> shape,
              std::span<const int64_t> strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size)
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] > 1) dims.emplace_back(strides[i], shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  // If each stride steps over all that the smaller ones reach, every coordinate
  // has a place of its own; this is the case of every ordinary tensor.
  bool nested = true;
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    nested &= stride > reach;
    reach += (size - 1) * stride;
  }
  if (nested) return false;
  // Otherwise look: {2, 3} strides of a {3, 2} shape interleave without
  // meeting. More elements than places must meet.
  int64_t count = 1;
  for (const auto& [stride, size] : dims) count *= size;
  if (count > reach + 1) return true;
  std::vector<bool> taken(static_cast<size_t>(reach) + 1);
  std::vector<int64_t> at(dims.size());
  int64_t place = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (taken[place]) return true;
    taken[place] = true;
    for (size_t d = 0; d < dims.size(); ++d) {  // the next coordinate
      const auto& [stride, size] = dims[d];
      place += stride;
      if (++at[d] < size) break;
      place -= stride * size;
      at[d] = 0;
    }
  }
  return false;
}

}  // namespace topk
