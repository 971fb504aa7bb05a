#include "core/plan/plan.h"

#include "core/base/checked.h"
#include "core/base/text.h"
#include "core/plan/layout.h"

namespace topk {
namespace {

// Sets plan.axis, outer, n and inner from the request's shape and axis.
Status SetAxis(const PlanRequest& request, Plan& plan) {
  const int64_t rank = static_cast<int64_t>(request.shape.size());
  if (rank == 0) {
    return InvalidArgument("RANK_ZERO", "tensor.shape",
                           "the tensor is a scalar; it needs at least one "
                           "dimension to select along");
  }
  const int64_t least = request.axis_from_back ? -rank : 0;
  if (request.axis < least || request.axis >= rank) {
    return InvalidArgument(
        "AXIS_RANGE", StrCat(request.attributes, ".axis"),
        StrCat("axis = ", request.axis, " is outside ", least, " .. ", rank - 1,
               " for a tensor of rank ", rank));
  }
  plan.axis =
      static_cast<int>(request.axis < 0 ? request.axis + rank : request.axis);
  plan.shape = request.shape;
  plan.n = plan.shape[plan.axis];
  for (int i = 0; i < plan.axis; ++i) plan.outer *= plan.shape[i];
  for (int64_t i = plan.axis + 1; i < rank; ++i) plan.inner *= plan.shape[i];
  return {};
}

Status CheckK(const PlanRequest& request, const Plan& plan) {
  const std::string field = StrCat(request.attributes, ".k");
  if (request.k < 1) {
    return InvalidArgument("K_NOT_POSITIVE", field,
                           StrCat("k = ", request.k, " must be at least 1"));
  }
  if (request.k > plan.n) {
    return InvalidArgument("K_EXCEEDS_DIMENSION", field,
                           StrCat("k = ", request.k, " exceeds dimension ",
                                  plan.n, " along axis ", plan.axis));
  }
  return {};
}

Status CheckIndices(const PlanRequest& request, const Plan& plan) {
  if (request.index_offset < 0) {
    return InvalidArgument("INDEX_OFFSET_NEGATIVE", "index_offset",
                           StrCat("index_offset = ", request.index_offset,
                                  " must not be negative"));
  }
  const int64_t max = MaxIndex(request.index_type);
  const auto too_small = [&](std::string_view field, const std::string& what) {
    return InvalidArgument(
        "INDEX_TYPE_TOO_SMALL", field,
        StrCat(what, " exceeds ", max, ", the maximum of the index type ",
               InfoOf(request.index_type).name));
  };
  // OpenVINO rejects such a dimension although its last index, n - 1, may fit.
  if (plan.n > max) {
    return too_small("tensor.shape",
                     StrCat("dimension ", plan.n, " along axis ", plan.axis));
  }
  int64_t last = 0;
  if (!CheckedAdd(plan.n - 1, request.index_offset, &last) || last > max) {
    return too_small("index_offset",
                     StrCat("index ", plan.n - 1, " along axis ", plan.axis,
                            " with index_offset = ", request.index_offset));
  }
  return {};
}

Result<Layout> OutputLayout(const Plan& plan, const OutputRequest& request,
                            const DTypeInfo& type) {
  const std::vector<int64_t> shape = plan.output_shape();
  Result<Layout> layout =
      request.strides.empty()
          ? PackedLayout(shape, type, request.field)
          : StridedLayout(shape, request.strides, type.bytes,
                          StrCat(request.field, ".strides"));
  if (!layout.ok()) return layout;
  int64_t implied = 0;  // with DirectML's padding
  if (!CheckedRoundUp4(layout->bytes, &implied)) {
    return InvalidArgument("SIZE_OVERFLOW", request.field,
                           "the output's size exceeds 63 bits");
  }
  if (!request.strides.empty()) layout->bytes = implied;
  if (request.total_bytes != 0) {
    if (request.total_bytes < implied) {
      return InvalidArgument(
          "TOTAL_SIZE_TOO_SMALL",
          StrCat(request.field, ".total_tensor_size_bytes"),
          StrCat("total size ", request.total_bytes, " is less than the ",
                 implied, " bytes that sizes and strides imply"));
    }
    layout->bytes = request.total_bytes;
  }
  return layout;
}

Status CheckLimits(const Plan& plan, int64_t elements, const Limits& limits) {
  if (elements > limits.max_elements) {
    return ResourceExhausted("TOO_MANY_ELEMENTS", "tensor.shape",
                             StrCat(elements, " elements exceed the limit of ",
                                    limits.max_elements, " (--max-elements)"));
  }
  int64_t bytes = 0;
  const int64_t values = plan.wants_values ? plan.values.bytes : 0;
  const int64_t indices = plan.wants_indices ? plan.indices.bytes : 0;
  if (!CheckedAdd(values, indices, &bytes) || bytes > limits.max_output_bytes) {
    return ResourceExhausted(
        "OUTPUT_TOO_LARGE", "tensor.shape",
        StrCat("values of ", values, " bytes and indices of ", indices,
               " bytes exceed the limit of ", limits.max_output_bytes,
               " (--max-output-bytes)"));
  }
  if (plan.selected() > limits.max_selected_elements) {
    return ResourceExhausted(
        "TOO_MANY_SELECTED", "tensor.shape",
        StrCat("k = ", plan.k, " in each of ", plan.slices(),
               " slices selects ", plan.selected(),
               " elements, more than the limit of ",
               limits.max_selected_elements, " (--max-selected-elements)"));
  }
  return {};
}

// An output that is written must have a place for every element.
Status CheckOverlap(const Plan& plan, bool wanted, const Layout& layout,
                    std::string_view field) {
  if (!wanted || layout.packed) return {};
  switch (Overlaps(plan.output_shape(), layout.strides)) {
    case Overlap::kNo:
      return {};
    case Overlap::kYes:
      return InvalidArgument("OUTPUT_OVERLAPS", StrCat(field, ".strides"),
                             "the strides put two elements at one place");
    case Overlap::kUndecided:
      break;
  }
  return ResourceExhausted(
      "LAYOUT_TOO_COMPLEX", StrCat(field, ".strides"),
      StrCat(
          "whether the strides put two elements at one place is not decided "
          "within ",
          kOverlapSteps,
          " steps; use strides of which each exceeds the reach of the smaller "
          "ones"));
}

}  // namespace

std::vector<int64_t> Plan::output_shape() const {
  std::vector<int64_t> result = shape;
  result[axis] = k;
  return result;
}

Result<Plan> MakePlan(const PlanRequest& request, const Limits& limits) {
  Plan plan;
  plan.dtype = request.dtype;
  plan.k = request.k;
  plan.direction = request.direction;
  plan.order = request.order;
  plan.index_type = request.index_type;
  plan.index_offset = request.index_offset;
  plan.wants_values = request.wants_values;
  plan.wants_indices = request.wants_indices;

  const Result<int64_t> elements = CountElements(request.shape, "tensor.shape");
  if (!elements.ok()) return elements.status();
  if (Status s = SetAxis(request, plan); !s.ok()) return s;
  if (Status s = CheckK(request, plan); !s.ok()) return s;
  if (Status s = CheckIndices(request, plan); !s.ok()) return s;

  const DTypeInfo& type = InfoOf(plan.dtype);
  Result<Layout> input = request.strides.empty()
                             ? PackedLayout(request.shape, type, "tensor.shape")
                             : StridedLayout(request.shape, request.strides,
                                             type.bytes, "tensor.strides");
  if (!input.ok()) return input.status();
  plan.input = *std::move(input);
  if (request.may_be_padded &&
      !CheckedRoundUp4(plan.input.bytes, &plan.input.padded_bytes)) {
    return InvalidArgument("SIZE_OVERFLOW", "tensor.shape",
                           "the tensor's size exceeds 63 bits");
  }
  Result<Layout> values = OutputLayout(plan, request.values, type);
  if (!values.ok()) return values.status();
  plan.values = *std::move(values);
  Result<Layout> indices =
      OutputLayout(plan, request.indices, InfoOf(plan.index_type));
  if (!indices.ok()) return indices.status();
  plan.indices = *std::move(indices);

  if (Status s = CheckLimits(plan, *elements, limits); !s.ok()) return s;
  if (Status s = CheckOverlap(plan, plan.wants_values, plan.values,
                              request.values.field);
      !s.ok()) {
    return s;
  }
  if (Status s = CheckOverlap(plan, plan.wants_indices, plan.indices,
                              request.indices.field);
      !s.ok()) {
    return s;
  }
  return plan;
}

int64_t SliceOffset(const Plan& plan, const Layout& layout, int64_t slice) {
  // A packed tensor is [outer, n or k, inner] whatever its rank, which a
  // stranger may have made thousands.
  if (layout.packed) {
    const auto axis = static_cast<size_t>(plan.axis);
    const int64_t outer_stride = axis > 0 ? layout.strides[axis - 1] : 0;
    return slice / plan.inner * outer_stride + slice % plan.inner;
  }
  int64_t offset = 0;
  for (size_t i = plan.shape.size(); i-- > 0;) {
    if (static_cast<int>(i) == plan.axis) continue;
    offset += slice % plan.shape[i] * layout.strides[i];
    slice /= plan.shape[i];
  }
  return offset;
}

}  // namespace topk
