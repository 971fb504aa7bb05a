// An answer that nothing is wrong with.
#pragma once

#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Returns an answer that a client accepts for a request of ONNX TopK over the
/// last axis of an f32: zeros, which are not the largest elements.
inline v1::TopKResponse AnswerTo(const v1::TopKRequest& request) {
  v1::TopKResponse answer;
  v1::Tensor& values = *answer.mutable_values();
  v1::Tensor& indices = *answer.mutable_indices();
  *values.mutable_shape() = request.tensor().shape();
  if (values.shape().empty()) return answer;
  values.set_shape(values.shape_size() - 1, request.onnx().k().value());
  *indices.mutable_shape() = values.shape();
  size_t count = 1;
  for (const int64_t size : values.shape()) count *= static_cast<size_t>(size);
  values.set_data_type(v1::DATA_TYPE_F32);
  values.set_data(std::string(count * 4, '\0'));
  indices.set_data_type(v1::DATA_TYPE_I64);
  indices.set_data(std::string(count * 8, '\0'));
  answer.set_request_id(request.request_id());
  return answer;
}

/// Returns the same for two of five along the last axis of an f32 [2, 5].
inline v1::TopKResponse RightAnswer() {
  v1::TopKRequest request;
  request.mutable_tensor()->add_shape(2);
  request.mutable_tensor()->add_shape(5);
  request.mutable_onnx()->mutable_k()->set_value(2);
  return AnswerTo(request);
}

}  // namespace topk::testing
