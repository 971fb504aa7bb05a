#include "tests/fuzz/request_from.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

constexpr v1::DataType kDirectMLTypes[] = {
    v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, v1::DATA_TYPE_I8, v1::DATA_TYPE_I16,
    v1::DATA_TYPE_I32, v1::DATA_TYPE_I64, v1::DATA_TYPE_U8, v1::DATA_TYPE_U16,
    v1::DATA_TYPE_U32, v1::DATA_TYPE_U64,
};

// Returns sizes whose product is at most `most`, and usually far smaller.
std::vector<int64_t> ShapeFrom(Input& input, int64_t most) {
  most >>= input.Below(8);
  std::vector<int64_t> shape(static_cast<size_t>(1 + input.Below(5)));
  for (int64_t& size : shape) {
    const int64_t bound = std::min<int64_t>(most, input.Flag() ? 5 : most);
    size = 1 + input.Below(bound);
    most /= size;
  }
  std::rotate(shape.begin(),
              shape.begin() + input.Below(static_cast<int64_t>(shape.size())),
              shape.end());
  return shape;
}

// Sets strides without overlaps, with the dimensions in any order and gaps.
void StridesFrom(Input& input, const std::vector<int64_t>& shape,
                 google::protobuf::RepeatedField<int64_t>& strides) {
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    order.insert(order.begin() + input.Below(d + 1), d);
  }
  strides.Clear();
  for (size_t d = 0; d < shape.size(); ++d) strides.Add(0);
  int64_t step = 1;
  for (const int d : order) {
    strides.Set(d, step);
    step = step * shape[static_cast<size_t>(d)] + input.Below(3);
  }
}

void FillOpenVino(Input& input, int64_t axis, int64_t k,
                  v1::TopKRequest& request) {
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  request.mutable_tensor()->set_data_type(
      static_cast<v1::DataType>(1 + input.Below(12)));
  v1::OpenVinoTopK& openvino = *request.mutable_openvino();
  openvino.set_axis(axis);
  openvino.mutable_k()->set_value(k);
  openvino.set_mode(input.Flag() ? "max" : "min");
  openvino.set_sort(input.Flag() ? "index" : "value");
  openvino.set_index_element_type(input.Flag() ? "i64" : "i32");
}

void FillDirectML(Input& input, int64_t axis, int64_t k,
                  v1::TopKRequest& request) {
  request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  request.mutable_spec()->set_version(1);
  v1::Tensor& tensor = *request.mutable_tensor();
  tensor.set_data_type(kDirectMLTypes[input.Below(std::size(kDirectMLTypes))]);
  v1::DirectMLTopK& directml = *request.mutable_directml();
  directml.set_axis(axis);
  directml.set_k(k);
  directml.set_axis_direction(input.Flag() ? v1::AXIS_DIRECTION_INCREASING
                                           : v1::AXIS_DIRECTION_DECREASING);
  const std::vector<int64_t> shape(tensor.shape().begin(),
                                   tensor.shape().end());
  if (input.Flag()) {
    StridesFrom(input, shape, *tensor.mutable_strides());
    if (input.Flag()) {  // repeats an element
      tensor.set_strides(static_cast<int>(input.Below(tensor.strides_size())),
                         0);
    }
  }
  std::vector<int64_t> output = shape;
  output[static_cast<size_t>(axis)] = k;
  if (input.Flag()) {
    StridesFrom(input, output,
                *directml.mutable_output_value()->mutable_strides());
  }
  if (input.Flag()) {
    StridesFrom(input, output,
                *directml.mutable_output_index()->mutable_strides());
  }
  if (input.Flag()) {
    directml.mutable_output_index()->set_data_type(v1::DATA_TYPE_U64);
  }
}

}  // namespace

v1::TopKRequest RequestFrom(Input& input, int64_t max_elements) {
  v1::TopKRequest request;
  std::vector<int64_t> shape = ShapeFrom(input, max_elements);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = input.Below(rank);
  const int64_t n = shape[static_cast<size_t>(axis)];
  const int64_t k =
      1 + input.Below(input.Flag() ? std::min<int64_t>(n, 20) : n);
  const bool directml = input.Flag();
  if (!directml && rank > 1 && input.Byte() == 1) {
    shape[static_cast<size_t>((axis + 1) % rank)] = 0;
  }
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  if (directml) {
    FillDirectML(input, axis, k, request);
  } else {
    FillOpenVino(input, axis, k, request);
  }
  request.mutable_output()->set_selection(
      static_cast<v1::OutputSelection>(input.Below(3)));
  if (input.Flag()) request.set_index_offset(input.Below(int64_t{1} << 30));
  return request;
}

void SetData(Input& input, v1::TopKRequest& request) {
  v1::Tensor& tensor = *request.mutable_tensor();
  int64_t count = 1;
  for (const int64_t size : tensor.shape()) count *= size;
  if (tensor.strides_size() > 0) {
    count = 1;
    for (int d = 0; d < tensor.strides_size(); ++d) {
      count += (tensor.shape(d) - 1) * tensor.strides(d);
    }
  }
  const size_t width = (ElementBits(tensor.data_type()) + 7) / 8;
  const bool padded = request.has_directml() && input.Flag();
  const int64_t family = input.Below(3);
  const std::string_view rest = input.Rest();
  std::mt19937_64 random(rest.size());
  std::string& data = *tensor.mutable_data();
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    uint64_t bits = 0;
    for (size_t b = 0; b < width && !rest.empty(); ++b) {
      const char byte = rest[(i * width + b) % rest.size()];
      bits |= uint64_t{static_cast<uint8_t>(byte)} << 8 * b;
    }
    if (family == 1) bits ^= random();
    if (family == 2) bits += i;
    data.append(reinterpret_cast<const char*>(&bits), width);
  }
  data.resize(DataBytes(tensor.data_type(), static_cast<size_t>(count)));
  if (padded) data.resize((data.size() + 3) / 4 * 4);
}

}  // namespace topk::testing
