// An answer that nothing is wrong with.
#pragma once

#include <string>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Returns what answers two of five along the last axis of an f32 [2, 5], all
/// of it zero.
inline v1::TopKResponse RightAnswer() {
  v1::TopKResponse answer;
  for (v1::Tensor* tensor :
       {answer.mutable_values(), answer.mutable_indices()}) {
    tensor->add_shape(2);
    tensor->add_shape(2);
  }
  answer.mutable_values()->set_data_type(v1::DATA_TYPE_F32);
  answer.mutable_values()->set_data(std::string(16, '\0'));
  answer.mutable_indices()->set_data_type(v1::DATA_TYPE_I64);
  answer.mutable_indices()->set_data(std::string(32, '\0'));
  return answer;
}

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

}  // namespace topk::testing
