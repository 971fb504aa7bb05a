#include "client/cli/check_answer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/client/right_answer.h"

namespace topk::cli {
namespace {

using ::topk::testing::RightAnswer;

constexpr int64_t kShape[] = {2, 5};

Question TwoOfFive() { return {DType::kF32, kShape, -1, 2}; }

void SetIndex(v1::TopKResponse& answer, int64_t index) {
  std::memcpy(answer.mutable_indices()->mutable_data()->data() + 24, &index,
              sizeof(index));
}

TEST(CheckAnswer, ReturnsTheAxis) {
  v1::TopKResponse answer = RightAnswer();
  SetIndex(answer, 4);
  const Result<int> axis = CheckAnswer(TwoOfFive(), answer);
  ASSERT_TRUE(axis.ok()) << axis.status().message;
  EXPECT_EQ(*axis, 1);
}

TEST(CheckAnswer, TakesEveryTypeOfIndices) {
  for (const auto type : {v1::DATA_TYPE_I32, v1::DATA_TYPE_U32,
                          v1::DATA_TYPE_I64, v1::DATA_TYPE_U64}) {
    const bool wide = type == v1::DATA_TYPE_I64 || type == v1::DATA_TYPE_U64;
    v1::TopKResponse answer = RightAnswer();
    answer.mutable_indices()->set_data_type(type);
    answer.mutable_indices()->set_data(std::string(wide ? 32 : 16, '\0'));
    EXPECT_TRUE(CheckAnswer(TwoOfFive(), answer).ok()) << type;
    answer.mutable_indices()->mutable_data()->at(0) = 5;
    EXPECT_FALSE(CheckAnswer(TwoOfFive(), answer).ok()) << type;
    answer.mutable_indices()->set_data(std::string(wide ? 32 : 16, '\xff'));
    EXPECT_FALSE(CheckAnswer(TwoOfFive(), answer).ok()) << type;
  }
}

TEST(CheckAnswer, TakesTheIndicesOfAShard) {
  v1::TopKResponse answer = RightAnswer();
  answer.mutable_indices()->set_data_type(v1::DATA_TYPE_U32);
  answer.mutable_indices()->set_data(
      std::string("\7\0\0\0\x8\0\0\0"
                  "\4\0\0\0\6\0\0\0",
                  16));
  Question question = TwoOfFive();
  for (const int64_t offset : {3, 4, 5}) {
    question.index_offset = offset;
    EXPECT_EQ(CheckAnswer(question, answer).ok(), offset == 4) << offset;
  }
}

TEST(CheckAnswer, TakesAnAnswerOfNothing) {
  const int64_t shape[] = {0, 5};
  v1::TopKResponse answer = RightAnswer();
  for (v1::Tensor* tensor :
       {answer.mutable_values(), answer.mutable_indices()}) {
    tensor->set_shape(0, 0);
    tensor->clear_data();
  }
  EXPECT_TRUE(CheckAnswer({DType::kF32, shape, 1, 2}, answer).ok());
}

TEST(CheckAnswer, RefusesWhatWouldBeReadBeyondItsEnd) {
  const std::pair<const char*, std::function<void(v1::TopKResponse&)>> wrong[] =
      {
          {"nothing", [](auto& a) { a.Clear(); }},
          {"no values", [](auto& a) { a.clear_values(); }},
          {"no indices", [](auto& a) { a.clear_indices(); }},
          {"short values",
           [](auto& a) { a.mutable_values()->mutable_data()->pop_back(); }},
          {"long values",
           [](auto& a) { a.mutable_values()->mutable_data()->push_back(0); }},
          {"short indices",
           [](auto& a) { a.mutable_indices()->mutable_data()->pop_back(); }},
          {"rank", [](auto& a) { a.mutable_values()->clear_shape(); }},
          {"size", [](auto& a) { a.mutable_values()->set_shape(0, 1 << 30); }},
          {"negative size",
           [](auto& a) { a.mutable_indices()->set_shape(1, -2); }},
          {"strides", [](auto& a) { a.mutable_values()->add_strides(1); }},
          {"unknown type",
           [](auto& a) {
             a.mutable_values()->set_data_type(static_cast<v1::DataType>(77));
           }},
          {"another type",
           [](auto& a) {
             a.mutable_values()->set_data_type(v1::DATA_TYPE_I32);
           }},
          {"floats as indices",
           [](auto& a) {
             a.mutable_indices()->set_data_type(v1::DATA_TYPE_F64);
           }},
          {"index 5 of 5", [](auto& a) { SetIndex(a, 5); }},
          {"index -1", [](auto& a) { SetIndex(a, -1); }},
      };
  for (const auto& [name, spoil] : wrong) {
    v1::TopKResponse answer = RightAnswer();
    spoil(answer);
    const Result<int> axis = CheckAnswer(TwoOfFive(), answer);
    ASSERT_FALSE(axis.ok()) << name;
    EXPECT_EQ(axis.status().code, Code::kInternal) << name;
    EXPECT_EQ(axis.status().reason, "BAD_ANSWER") << name;
  }
}

TEST(CheckAnswer, RefusesAnAnswerToWhatHasNone) {
  // A right server refuses these; one that answers is wrong.
  for (const int64_t axis : {-3, 2, INT32_MAX}) {
    EXPECT_FALSE(
        CheckAnswer({DType::kF32, kShape, axis, 2}, RightAnswer()).ok());
  }
  for (const int64_t k : {-1, 0, 6}) {
    EXPECT_FALSE(CheckAnswer({DType::kF32, kShape, 1, k}, RightAnswer()).ok());
  }
  EXPECT_FALSE(CheckAnswer({DType::kF32, {}, -1, 2}, RightAnswer()).ok());
}

}  // namespace
}  // namespace topk::cli
