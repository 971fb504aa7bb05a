// A valid request, independent of its dialect, with everything that a backend
// needs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/order.h"
#include "core/base/status.h"

namespace topk {

/// The positions of a tensor's elements in its bytes.
struct Layout {
  /// In elements, one per dimension.
  std::vector<int64_t> strides;
  /// The length of the tensor's data, in bytes. Padding may follow the data of
  /// an input and is ignored.
  int64_t bytes = 0;
  /// Whether the strides are those of a contiguous row-major tensor.
  bool packed = true;
};

/// The elements to select from each slice, and the outputs.
struct Selected {
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

/// A valid selection of k of the n elements of each slice along an axis.
///
/// The tensor has the shape [outer, n, inner] and outer * inner slices. Slice
/// number o * inner + c has the elements [o, :, c]. Outputs have the shape
/// [outer, k, inner]. 1 <= k <= n, and all indices fit index_type.
struct Plan : Selected {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;

  /// The input's shape, and the dimension of length n.
  std::vector<int64_t> shape;
  int axis = 0;

  Layout input;
  /// The two allowed lengths of the input's data, in bytes. They differ only if
  /// DirectML's padding to a multiple of 4 is optional.
  int64_t data_bytes = 0;
  int64_t padded_data_bytes = 0;
  /// Outputs have the input's shape with k along the axis.
  Layout values;
  Layout indices;

  int64_t slices() const { return outer * inner; }
  /// The number of elements of each output.
  int64_t selected() const { return k * slices(); }
  /// The bytes of the outputs that the request wants.
  int64_t output_bytes() const {
    return (wants_values ? values.bytes : 0) +
           (wants_indices ? indices.bytes : 0);
  }
  std::vector<int64_t> output_shape() const;
};

/// The limits of one request, in elements and bytes.
struct Limits {
  /// The maximum number of elements of the input's shape. Elements repeated by
  /// a stride of 0 count, because they cost time though no bytes.
  int64_t max_elements = int64_t{1} << 34;
  /// The maximum size of both outputs together: a protobuf message is limited
  /// to 2 GiB.
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  /// The maximum number of elements of one output, k per slice. Selected
  /// elements cost memory in addition to the output, and time for a sort, which
  /// numbers them in 32 bits. REQUIRES: less than 2^32.
  int64_t max_selected_elements = std::numeric_limits<uint32_t>::max();
  /// The maximum number of dimensions of the input's shape.
  int64_t max_rank = 64;
};

/// The layout that a request wants for an output.
struct OutputRequest {
  /// The path of the output's description, for errors, e.g.
  /// "directml.output_value"; the path of the input's shape if the request has
  /// no description.
  std::string field = "tensor.shape";
  /// In elements; empty = packed.
  std::vector<int64_t> strides;
  /// 0 = the length that shape and strides imply.
  int64_t total_bytes = 0;
};

/// A request in the terms that all dialects share. Its dialect has already
/// checked it.
struct PlanRequest : Selected {
  /// The name of the attributes' field, for errors, e.g. "onnx".
  std::string_view attributes;
  std::vector<int64_t> shape;
  /// In elements; empty = packed.
  std::vector<int64_t> strides;
  /// Whether the input is a DirectML buffer, whose data may be padded to a
  /// multiple of 4 bytes and has at most 2^32 - 1 elements.
  bool is_buffer = false;
  /// The length of the input's data with padding, in bytes. 0 = the length that
  /// shape and strides imply. Only buffers may have another length.
  int64_t total_bytes = 0;
  int64_t axis = -1;
  /// Whether axes -rank .. -1 count from the back.
  bool axis_from_back = true;
  OutputRequest values;
  OutputRequest indices;
};

/// Returns the plan, or the error of the first rule that the request breaks:
/// INVALID_ARGUMENT for requests that no dialect allows (rank 0, negative or
/// overflowing sizes, an axis outside the rank, k < 1, k > n, indices that do
/// not fit their type, outputs that overlap themselves), RESOURCE_EXHAUSTED if
/// a limit is exceeded.
Result<Plan> MakePlan(const PlanRequest& request, const Limits& limits);

/// Returns the position of a slice's first element in a tensor of this layout,
/// in elements.
int64_t SliceOffset(const Plan& plan, const Layout& layout, int64_t slice);

}  // namespace topk
