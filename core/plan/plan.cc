#include "core/plan/plan.h"

#include <algorithm>

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
  if (request.strict && request.k == plan.n) {
    return InvalidArgument(
        "K_EQUALS_DIMENSION", field,
        StrCat("k = ", request.k, " equals the size along axis ", plan.axis,
               "; strict requires a smaller k"));
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
  const int64_t last = plan.n - 1;
  if (last <= max - request.index_offset) return {};
  return InvalidArgument(
      "INDEX_TYPE_TOO_SMALL", last > max ? "tensor.shape" : "index_offset",
      StrCat("index ", last, " along axis ", plan.axis,
             " with index_offset = ", request.index_offset, " exceeds ", max,
             ", the maximum of the index type ",
             InfoOf(request.index_type).name));
}

// Returns the length of a DirectML buffer's data: `total` or, if `total` is 0,
// the length that sizes and strides imply, rounded up to a multiple of 4.
// `elements` is the number of elements in the shape or the number that the data
// spans with gaps, whichever is greater. `field` and `total_field` are the
// fields to name in errors about `elements` and `total`.
Result<int64_t> BufferBytes(int64_t elements, const Layout& layout,
                            int64_t element_bytes, int64_t total,
                            std::string_view field,
                            std::string_view total_field) {
  // DML_BUFFER_TENSOR_DESC: "The total size of a buffer tensor may not exceed
  // (2^32 - 1) elements".
  constexpr int64_t kMaxElements = std::numeric_limits<uint32_t>::max();
  const auto round_up = [](int64_t bytes) { return (bytes + 3) / 4 * 4; };
  if (elements > kMaxElements) {
    return InvalidArgument(
        "SIZE_RANGE", field,
        StrCat("the tensor has ", elements,
               " elements, including gaps between them; DirectML allows at "
               "most ",
               kMaxElements));
  }
  const int64_t implied = round_up(layout.bytes);
  if (total == 0) return implied;
  const int64_t most = round_up(kMaxElements * element_bytes);
  if (total >= implied && total <= most && total % 4 == 0) return total;
  return InvalidArgument(
      total < implied ? "TOTAL_SIZE_TOO_SMALL" : "TOTAL_SIZE_RANGE",
      total_field,
      StrCat("total size ", total, " must be a multiple of 4 from ", implied,
             ", the size of the tensor, to ", most,
             " bytes (4294967295 elements)"));
}

Status SetInput(const PlanRequest& request, int64_t elements, Plan& plan) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  Result<Layout> layout = MakeLayout(request.shape, request.strides, type,
                                     "tensor.shape", "tensor.strides");
  if (!layout.ok()) return layout.status();
  plan.input = *std::move(layout);
  plan.data_bytes = plan.padded_data_bytes = plan.input.bytes;
  if (!request.is_buffer) return {};
  const int64_t span = plan.input.bytes / type.bytes;
  const Result<int64_t> padded = BufferBytes(
      std::max(elements, span), plan.input, type.bytes, request.total_bytes,
      elements >= span ? "tensor.shape" : "tensor.strides",
      StrCat(request.attributes, ".input_total_tensor_size_bytes"));
  if (!padded.ok()) return padded.status();
  plan.padded_data_bytes = *padded;
  if (request.total_bytes != 0) plan.data_bytes = *padded;
  return {};
}

Status CheckSizes(const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& shape, const std::string& field) {
  if (sizes.size() != shape.size()) {
    return InvalidArgument(
        "OUTPUT_SIZES", field,
        StrCat("the output has ", sizes.size(), " sizes; it must have ",
               shape.size(), ", like the input"));
  }
  const auto [size, expected] = std::ranges::mismatch(sizes, shape);
  if (size == sizes.end()) return {};
  const auto i = size - sizes.begin();
  return InvalidArgument(
      "OUTPUT_SIZES", StrCat(field, "[", i, "]"),
      StrCat("size ", *size, " of dimension ", i, " must be ", *expected));
}

Result<Layout> OutputLayout(const Plan& plan, bool is_buffer,
                            const OutputRequest& request,
                            const DTypeInfo& type) {
  const auto field = [&](const char* name) {
    return StrCat(request.field, ".", name);
  };
  const std::vector<int64_t> shape = plan.output_shape();
  if (!request.sizes.empty()) {
    Status s = CheckSizes(request.sizes, shape, field("sizes"));
    if (!s.ok()) return s;
  }
  const std::string strides_field =
      request.strides.empty() ? "" : field("strides");
  Result<Layout> layout =
      MakeLayout(shape, request.strides, type, request.field, strides_field);
  if (!layout.ok() || !is_buffer) return layout;
  const Result<int64_t> bytes = BufferBytes(
      layout->bytes / type.bytes, *layout, type.bytes, request.total_bytes,
      field("strides"), field("total_tensor_size_bytes"));
  if (!bytes.ok()) return bytes.status();
  // Without strides, outputs have no padding unless the request sets the total
  // size.
  if (!request.strides.empty() || request.total_bytes != 0) {
    layout->bytes = *bytes;
  }
  return layout;
}

Status CheckLimits(const PlanRequest& request, const Plan& plan,
                   int64_t elements, const Limits& limits) {
  if (elements > limits.max_elements) {
    return ResourceExhausted("TOO_MANY_ELEMENTS", "tensor.shape",
                             StrCat(elements, " elements exceed the limit of ",
                                    limits.max_elements, " (--max-elements)"));
  }
  const int64_t values = plan.wants_values ? plan.values.bytes : 0;
  const int64_t indices = plan.wants_indices ? plan.indices.bytes : 0;
  if (values > limits.max_output_bytes - indices) {
    return ResourceExhausted(
        "OUTPUT_TOO_LARGE",
        values > indices ? request.values.field : request.indices.field,
        StrCat("values of ", values, " bytes and indices of ", indices,
               " bytes exceed the limit of ", limits.max_output_bytes,
               " (--max-output-bytes)"));
  }
  if (plan.output_elements() > limits.max_selected_elements) {
    return ResourceExhausted(
        "TOO_MANY_SELECTED", "tensor.shape",
        StrCat("k = ", plan.k, " in each of ", plan.slices(),
               " slices selects ", plan.output_elements(),
               " elements, more than the limit of ",
               limits.max_selected_elements, " (--max-selected-elements)"));
  }
  return {};
}

// Rejects strides that make elements of an output overlap.
Status CheckOverlap(const Plan& plan, bool wanted, const Layout& layout,
                    const OutputRequest& request) {
  if (!wanted || layout.contiguous) return {};
  const Overlap overlap = Overlaps(plan.output_shape(), layout.strides);
  if (overlap == Overlap::kNo) return {};
  const std::string field = StrCat(request.field, ".strides");
  if (overlap == Overlap::kYes) {
    return InvalidArgument("OUTPUT_OVERLAPS", field,
                           "these strides make elements overlap");
  }
  return ResourceExhausted(
      "LAYOUT_TOO_COMPLEX", field,
      StrCat("the output has ", plan.output_elements(),
             " elements; with more than ", kMaxComparedElements,
             ", each stride must exceed the total extent of the dimensions "
             "with smaller strides"));
}

}  // namespace

std::vector<int64_t> Plan::output_shape() const {
  std::vector<int64_t> result = shape;
  result[axis] = k;
  return result;
}

Result<Plan> MakePlan(const PlanRequest& request, const Limits& limits) {
  Plan plan;
  static_cast<Parameters&>(plan) = request;
  const Result<int64_t> elements = CountElements(request.shape, "tensor.shape");
  if (!elements.ok()) return elements.status();
  if (Status s = SetAxis(request, plan); !s.ok()) return s;
  if (Status s = CheckK(request, plan); !s.ok()) return s;
  if (Status s = CheckIndices(request, plan); !s.ok()) return s;

  if (Status s = SetInput(request, *elements, plan); !s.ok()) return s;
  Result<Layout> values =
      OutputLayout(plan, request.is_buffer, request.values, InfoOf(plan.dtype));
  if (!values.ok()) return values.status();
  plan.values = *std::move(values);
  Result<Layout> indices = OutputLayout(
      plan, request.is_buffer, request.indices, InfoOf(plan.index_type));
  if (!indices.ok()) return indices.status();
  plan.indices = *std::move(indices);

  if (Status s = CheckLimits(request, plan, *elements, limits); !s.ok())
    return s;
  // All elements of a slice are equal, so reading k of them suffices.
  if (plan.input.strides[plan.axis] == 0) plan.n = plan.k;
  Status overlap =
      CheckOverlap(plan, plan.wants_values, plan.values, request.values);
  if (overlap.ok()) {
    overlap =
        CheckOverlap(plan, plan.wants_indices, plan.indices, request.indices);
  }
  if (!overlap.ok()) return overlap;
  return plan;
}

int64_t SliceOffset(const Plan& plan, const Layout& layout, int64_t slice) {
  // Fast path: treat a contiguous tensor as if it had only three dimensions.
  if (layout.contiguous) {
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
