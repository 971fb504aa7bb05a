// A valid request in a form that is independent of its dialect. Contains
// everything that a backend needs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "topk/order.h"
#include "topk/status.h"

namespace topk {

/// The arrangement of a tensor's elements in its data.
struct Layout {
  /// The strides, in elements: one per dimension. If `contiguous`, the strides
  /// of dimensions of size 1 are also those of a contiguous tensor.
  std::vector<int64_t> strides;
  /// The length of the tensor's data, in bytes. Padding may follow the data of
  /// an input and is ignored.
  int64_t bytes = 0;
  /// Whether the tensor is contiguous and row-major.
  bool contiguous = true;
  /// Whether several elements share a byte, like the elements of a request with
  /// DTypeInfo::packed().
  bool packed = false;
  /// The strides as given in the request, or empty.
  std::vector<int64_t> given_strides = {};
};

/// The parameters of a selection and of its outputs.
struct Parameters {
  DType dtype = DType::kF32;
  int64_t k = 0;
  Direction direction = Direction::kLargest;
  Order order = Order::kValue;
  /// I32, I64, U32 or U64.
  DType index_type = DType::kI64;
  /// Added to every index.
  int64_t index_offset = 0;
  bool wants_values = true;
  bool wants_indices = true;
};

/// A validated request to select k of n elements in each slice along an axis.
///
/// The tensor is viewed as [outer, n, inner], with outer * inner slices. Slice
/// o * inner + c consists of the elements [o, :, c]. Outputs are viewed as
/// [outer, k, inner]. 1 <= k <= n, and all indices fit index_type. If the
/// stride along the axis is 0, n is k, because all elements of a slice are
/// equal.
struct Plan : Parameters {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;

  /// The input's shape, and the index of the dimension to select along.
  std::vector<int64_t> shape;
  int axis = 0;

  Layout input;
  /// The input's data must have one of these lengths, in bytes. The lengths
  /// differ only if DirectML's padding to a multiple of 4 is optional.
  int64_t data_bytes = 0;
  int64_t padded_data_bytes = 0;
  /// The outputs' shape is the input's shape with k along the axis.
  Layout values;
  Layout indices;

  int64_t slices() const { return outer * inner; }
  /// The number of elements of each output.
  int64_t output_elements() const { return k * slices(); }
  /// The total size of the requested outputs, in bytes.
  int64_t output_bytes() const {
    return (wants_values ? values.bytes : 0) +
           (wants_indices ? indices.bytes : 0);
  }
  std::vector<int64_t> output_shape() const;
};

/// The limits of a single request.
struct Limits {
  /// The maximum number of elements in the input's shape. Includes elements
  /// that a stride of 0 repeats, which take time but no memory.
  int64_t max_elements = int64_t{1} << 34;
  /// The maximum total size of both outputs, in bytes. A protobuf message is
  /// limited to 2 GiB.
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  /// The maximum number of elements in each output. Each element also takes
  /// working memory and sorting time. REQUIRES: less than 2^32, because the
  /// sort uses 32-bit positions.
  int64_t max_selected_elements = std::numeric_limits<uint32_t>::max();
  /// The maximum number of dimensions of the input.
  int64_t max_rank = 64;
};

/// The layout that a request specifies for an output.
struct OutputRequest {
  /// The field to name in errors: the output's description, for example
  /// "directml.output_value", or the input's shape if there is no description.
  std::string field = "tensor.shape";
  /// The sizes that the request expects. Empty means any.
  std::vector<int64_t> sizes;
  /// The strides, in elements. Empty means contiguous.
  std::vector<int64_t> strides;
  /// The total size, in bytes. 0 means the length that shape and strides imply.
  int64_t total_bytes = 0;
};

/// A request in a form that all dialects share. It already satisfies the rules
/// that are specific to its dialect.
struct PlanRequest : Parameters {
  /// The request field with the attributes, e.g. "onnx". Used in errors.
  std::string_view attributes;
  std::vector<int64_t> shape;
  /// The strides, in elements. Empty means contiguous.
  std::vector<int64_t> strides;
  /// Whether the input is a DirectML buffer. A buffer has at most 2^32 - 1
  /// elements, and its data may be padded to a multiple of 4 bytes.
  bool is_buffer = false;
  /// The length of the input's data including padding, in bytes. 0 means the
  /// length that shape and strides imply. Only used for buffers.
  int64_t total_bytes = 0;
  int64_t axis = -1;
  /// Whether to reject k = n.
  bool strict = false;
  /// Whether the axes -rank .. -1 are valid and count from the back.
  bool axis_from_back = true;
  OutputRequest values;
  OutputRequest indices;
};

/// Returns the plan, or an error for the first rule that the request breaks.
/// Returns RESOURCE_EXHAUSTED if a limit is exceeded. Returns INVALID_ARGUMENT
/// for rank 0, negative or overflowing sizes, an axis outside the rank, k < 1,
/// k > n, indices that do not fit their type, or outputs whose elements
/// overlap. These rules hold for all dialects.
Result<Plan> MakePlan(const PlanRequest& request, const Limits& limits);

/// Returns the position of a slice's first element in a tensor with `layout`,
/// in elements.
int64_t SliceOffset(const Plan& plan, const Layout& layout, int64_t slice);

}  // namespace topk
