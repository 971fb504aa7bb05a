#include "tests/bench/service/question.h"

#include <stdexcept>

#include "core/engine.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

v1::TopKRequest MakeHeader(int64_t elements, int64_t k) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(k);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(elements);
  return request;
}

void RequireOk(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

v1::TopKResponse Answer(const Question& question) {
  const Engine engine(EngineOptions{});
  Result<TensorStream> stream = testing::StartStream(engine, question.header);
  if (!stream.ok()) RequireOk(stream.status());
  for (int64_t i = 0; i < question.repeats; ++i) {
    RequireOk(stream->Feed(question.data()));
  }
  Result<v1::TopKResponse> answer = stream->Finish();
  if (!answer.ok()) RequireOk(answer.status());
  return std::move(*answer);
}

}  // namespace

QuestionPtr MakeQuestion(int64_t bytes, int64_t k, int64_t repeats) {
  auto question = std::make_shared<Question>();
  question->elements.resize(static_cast<size_t>(bytes) / sizeof(float));
  uint32_t random = 1;
  for (float& x : question->elements) {
    random = random * 1664525u + 1013904223u;
    x = static_cast<float>(random >> 8);
  }
  question->repeats = repeats;
  question->header = MakeHeader(question->bytes() / 4, k);
  question->answer = Answer(*question);
  return question;
}

void SpotCheck::Check(const v1::TopKResponse& answer) const {
  Check(answer.values().data(), answer.indices().data());
}

void SpotCheck::Check(const inference::ModelInferResponse& answer) const {
  if (answer.raw_output_contents_size() != 2) {
    throw std::runtime_error("not two outputs");
  }
  Check(answer.raw_output_contents(0), answer.raw_output_contents(1));
}

void SpotCheck::Check(std::string_view values, std::string_view indices) const {
  const v1::TopKResponse& right = question_->answer;
  if (values != right.values().data() || indices != right.indices().data()) {
    throw std::runtime_error("a wrong answer");
  }
}

}  // namespace topk::bench
