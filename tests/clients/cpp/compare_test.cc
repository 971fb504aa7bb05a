#include "client/cli/compare.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace topk::cli {
namespace {

// Returns a response with two zeros in each of two rows.
v1::TopKResponse RightAnswer() {
  v1::TopKResponse answer;
  for (v1::Tensor* tensor :
       {answer.mutable_values(), answer.mutable_indices()}) {
    tensor->add_shape(2);
    tensor->add_shape(2);
  }
  answer.mutable_values()->set_data_type(v1::DATA_TYPE_F32);
  answer.mutable_values()->set_data(std::string(4 * sizeof(float), '\0'));
  answer.mutable_indices()->set_data_type(v1::DATA_TYPE_I64);
  answer.mutable_indices()->set_data(std::string(4 * sizeof(int64_t), '\0'));
  return answer;
}

template <class T>
void Set(v1::Tensor& tensor, size_t i, T value) {
  std::memcpy(tensor.mutable_data()->data() + i * sizeof(T), &value, sizeof(T));
}

TEST(Difference, NamesTheFirstElement) {
  v1::TopKResponse server = RightAnswer();
  Set(*server.mutable_values(), 3, 2.5f);
  Set(*server.mutable_indices(), 3, int64_t{4});
  Set(*server.mutable_indices(), 2, int64_t{1});
  EXPECT_EQ(Difference(server, RightAnswer(), 1),
            "2 of 4 elements differ; the first is element 0 of slice [1, :]: "
            "server 0 @1, local 0 @0");
  // Along axis 0, the same element is the second one of the first slice.
  EXPECT_EQ(Difference(server, RightAnswer(), 0),
            "2 of 4 elements differ; the first is element 1 of slice [:, 0]: "
            "server 0 @1, local 0 @0");
}

TEST(Difference, ShowsBitsIfTheTextsAreEqual) {
  v1::TopKResponse server = RightAnswer();
  v1::TopKResponse ours = RightAnswer();
  Set(*server.mutable_values(), 0, 0x7fc00001u);
  Set(*ours.mutable_values(), 0, 0xffc00000u);
  EXPECT_EQ(Difference(server, ours, 1),
            "1 of 4 elements differ; the first is element 0 of slice [0, :]: "
            "server nan (0x7fc00001) @0, local nan (0xffc00000) @0");
}

TEST(Difference, ReportsAnotherIndexType) {
  v1::TopKResponse server = RightAnswer();
  server.mutable_indices()->set_data_type(v1::DATA_TYPE_I32);
  EXPECT_EQ(Difference(server, RightAnswer(), 1),
            "the indices are i32, locally i64");
}

}  // namespace
}  // namespace topk::cli
