#include "topk/request.h"

#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk {
namespace {

Request Make(const Elements& tensor, const std::vector<int64_t>& shape,
             v1::Dialect dialect, int32_t version) {
  v1::TopKRequest message;
  message.mutable_spec()->set_dialect(dialect);
  message.mutable_spec()->set_version(version);
  message.mutable_tensor()->set_data_type(tensor.type);
  message.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  return Request(std::move(message), tensor.bytes);
}

}  // namespace

Request Request::Onnx(Elements tensor, const std::vector<int64_t>& shape,
                      int64_t k, const OnnxAttributes& attributes) {
  Request request = Make(tensor, shape, v1::DIALECT_ONNX, 24);
  v1::OnnxTopK& onnx = *request.message().mutable_onnx();
  onnx.set_axis(attributes.axis);
  onnx.mutable_k()->set_value(k);
  onnx.set_largest(attributes.largest);
  onnx.set_sorted(attributes.sorted);
  return request;
}

Request Request::OpenVino(Elements tensor, const std::vector<int64_t>& shape,
                          int64_t k, const OpenVinoAttributes& attributes) {
  Request request = Make(tensor, shape, v1::DIALECT_OPENVINO, 11);
  v1::OpenVinoTopK& openvino = *request.message().mutable_openvino();
  openvino.set_axis(attributes.axis);
  openvino.mutable_k()->set_value(k);
  openvino.set_mode(attributes.largest ? "max" : "min");
  openvino.set_sort(attributes.sort);
  openvino.set_stable(attributes.stable);
  openvino.set_index_element_type(attributes.index_type);
  return request;
}

Request Request::DirectML(Elements tensor, const std::vector<int64_t>& shape,
                          int64_t k, const DirectMLAttributes& attributes) {
  Request request = Make(tensor, shape, v1::DIALECT_DIRECTML, 1);
  v1::DirectMLTopK& directml = *request.message().mutable_directml();
  const auto rank = static_cast<int64_t>(shape.size());
  directml.set_axis(attributes.axis + (attributes.axis < 0 ? rank : 0));
  directml.set_k(k);
  directml.set_axis_direction(attributes.largest
                                  ? v1::AXIS_DIRECTION_DECREASING
                                  : v1::AXIS_DIRECTION_INCREASING);
  return request;
}

Status Response::CheckView(std::string_view output, const v1::Tensor& tensor,
                           v1::DataType type) {
  const std::string field = StrCat("response.", output);
  if (!tensor.has_data() || !tensor.strides().empty()) {
    return InvalidArgument(
        "OUTPUT_NOT_CONTIGUOUS", field,
        StrCat("the ", output, " are not in the response, or strided"));
  }
  if (tensor.data_type() == type) return {};
  return InvalidArgument(
      "OUTPUT_TYPE", StrCat(field, ".data_type"),
      StrCat("the ", output, " are ", TypeName(tensor.data_type()), ", not ",
             TypeName(type)));
}

std::span<const int64_t> Response::shape() const {
  const auto& shape =
      (message_.has_values() ? message_.values() : message_.indices()).shape();
  return {shape.data(), static_cast<size_t>(shape.size())};
}

}  // namespace topk
