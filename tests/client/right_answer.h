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

}  // namespace topk::testing
