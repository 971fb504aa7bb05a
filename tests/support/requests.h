// Valid requests without data.
#pragma once

#include <cstdint>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Returns a request with a tensor type and shape but without attributes.
inline v1::TopKRequest RequestFor(v1::Dialect dialect, int version,
                                  v1::DataType type,
                                  const std::vector<int64_t>& shape) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(dialect);
  request.mutable_spec()->set_version(version);
  request.mutable_tensor()->set_data_type(type);
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  return request;
}

inline v1::TopKRequest OnnxRequest(v1::DataType type,
                                   const std::vector<int64_t>& shape, int64_t k,
                                   int64_t axis = -1) {
  v1::TopKRequest request = RequestFor(v1::DIALECT_ONNX, 11, type, shape);
  request.mutable_onnx()->set_axis(axis);
  request.mutable_onnx()->mutable_k()->set_value(k);
  return request;
}

/// Returns a request of OpenVINO TopK-11 for the largest elements by value.
inline v1::TopKRequest OpenVinoRequest(v1::DataType type,
                                       const std::vector<int64_t>& shape,
                                       int64_t k, int64_t axis = -1) {
  v1::TopKRequest request = RequestFor(v1::DIALECT_OPENVINO, 11, type, shape);
  request.mutable_openvino()->set_axis(axis);
  request.mutable_openvino()->set_mode("max");
  request.mutable_openvino()->set_sort("value");
  request.mutable_openvino()->mutable_k()->set_value(k);
  return request;
}

/// Returns a request of DirectML's TOP_K1 for the largest elements.
inline v1::TopKRequest DirectMLRequest(v1::DataType type,
                                       const std::vector<int64_t>& shape,
                                       int64_t k, int64_t axis = 0) {
  v1::TopKRequest request = RequestFor(v1::DIALECT_DIRECTML, 1, type, shape);
  request.mutable_directml()->set_axis(axis);
  request.mutable_directml()->set_k(k);
  request.mutable_directml()->set_axis_direction(v1::AXIS_DIRECTION_DECREASING);
  return request;
}

}  // namespace topk::testing
