// The answer does not depend on threads, cuts or the place in a batch.
#include <gtest/gtest.h>

#include "core/engine.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/support/compute.h"
#include "tests/support/generators.h"

namespace topk::testing {
namespace {

v1::TopKRequest Request(Random& random, std::vector<int64_t> shape,
                        int64_t axis, int64_t k, v1::DataType type) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  v1::OpenVinoTopK& openvino = *request.mutable_openvino();
  openvino.set_axis(axis);
  openvino.mutable_k()->set_value(k);
  openvino.set_mode("max");
  openvino.set_sort("value");
  openvino.set_index_element_type("i64");
  v1::Tensor& tensor = *request.mutable_tensor();
  tensor.set_data_type(type);
  int64_t count = 1;
  for (const int64_t size : shape) {
    tensor.add_shape(size);
    count *= size;
  }
  tensor.set_data(RandomData(random, type, count));
  return request;
}

struct CutShape {
  const char* name;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  v1::DataType type;
};

class Threads : public ::testing::TestWithParam<CutShape> {};

TEST_P(Threads, HaveTheSameResults) {
  const CutShape& p = GetParam();
  Random random(Seed(3));
  for (int round = 0; round < 4; ++round) {
    const v1::TopKRequest request =
        Request(random, p.shape, p.axis, p.k, p.type);
    const auto one = Compute(Engine({1, {}}), request);
    ASSERT_TRUE(one.ok());
    for (const int threads : {2, 3, 8}) {
      const auto many = Compute(Engine({threads, {}}), request);
      ASSERT_TRUE(many.ok());
      ASSERT_EQ(Comparable(*many), Comparable(*one)) << threads;
    }
    const auto cut = Stream(Engine({2, {}}), request, 100000, random);
    ASSERT_TRUE(cut.ok());
    ASSERT_EQ(Comparable(*cut), Comparable(*one));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Threads,
    ::testing::Values(
        CutShape{"rows", {700, 300}, 1, 9, v1::DATA_TYPE_F32},
        CutShape{"one_long_row", {1, 300000}, 1, 100, v1::DATA_TYPE_U16},
        CutShape{"one_long_row_of_i64", {200000}, 0, 7, v1::DATA_TYPE_I64},
        CutShape{"one_row_sorted", {100000}, 0, 100000, v1::DATA_TYPE_F16},
        CutShape{"columns", {3, 500, 200}, 1, 5, v1::DATA_TYPE_F32},
        CutShape{"few_long_columns", {100000, 3}, 0, 11, v1::DATA_TYPE_I8},
        CutShape{"sorted_columns", {40000, 2}, 0, 40000, v1::DATA_TYPE_U8},
        CutShape{"rows_of_i4", {700, 301}, 1, 9, v1::DATA_TYPE_I4},
        CutShape{"one_long_row_of_u3", {300001}, 0, 100, v1::DATA_TYPE_U3},
        CutShape{"one_row_of_u6_sorted", {100001}, 0, 100001, v1::DATA_TYPE_U6},
        CutShape{"rows_of_f4e2m1", {7, 30001}, 1, 99, v1::DATA_TYPE_F4E2M1},
        CutShape{"rows_of_f8e4m3", {7, 30000}, 1, 99, v1::DATA_TYPE_F8E4M3},
        CutShape{"few_long_columns_of_u1", {50001, 3}, 0, 11, v1::DATA_TYPE_U1},
        CutShape{"columns_of_u6", {3, 501, 203}, 1, 5, v1::DATA_TYPE_U6}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(Batch, ASingleRowHasTheResultOfTheBatch) {
  Random random(Seed(4));
  const v1::TopKRequest batch =
      Request(random, {50, 400}, 1, 13, v1::DATA_TYPE_BF16);
  const Engine engine({2, {}});
  const auto together = Compute(engine, batch);
  ASSERT_TRUE(together.ok());
  for (size_t row = 0; row < 50; ++row) {
    v1::TopKRequest alone = batch;
    alone.mutable_tensor()->set_shape(0, 1);
    alone.mutable_tensor()->set_data(
        batch.tensor().data().substr(row * 800, 800));
    const auto answer = Compute(engine, alone);
    ASSERT_TRUE(answer.ok());
    ASSERT_EQ(answer->values().data(),
              together->values().data().substr(row * 26, 26));
    ASSERT_EQ(answer->indices().data(),
              together->indices().data().substr(row * 104, 104));
  }
}

TEST(TensorStream, IgnoresEmptyChunks) {
  Random random(5);
  const v1::TopKRequest request =
      Request(random, {10}, 0, 3, v1::DATA_TYPE_F32);
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  const Engine engine({1, {}});
  auto stream = StartStream(engine, header);
  ASSERT_TRUE(stream.ok());
  const auto data = std::as_bytes(std::span(request.tensor().data()));
  for (size_t i = 0; i < data.size(); ++i) {  // within elements too
    EXPECT_TRUE(stream->Feed({}).ok());
    EXPECT_TRUE(stream->Feed(data.subspan(i, 1)).ok());
  }
  EXPECT_TRUE(stream->Feed({}).ok());
  const auto answer = stream->Finish();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(Comparable(*answer), Comparable(*Compute(engine, request)));
}

TEST(TensorStream, ReportsExcessDataAtOnce) {
  Random random(5);
  v1::TopKRequest request = Request(random, {10}, 0, 1, v1::DATA_TYPE_F32);
  request.mutable_tensor()->clear_data();
  const Engine engine({1, {}});
  auto stream = StartStream(engine, request);
  ASSERT_TRUE(stream.ok());
  const std::vector<std::byte> piece(30);
  EXPECT_TRUE(stream->Feed(piece).ok());
  const Status status = stream->Feed(piece);
  EXPECT_EQ(status.reason, "DATA_LENGTH");
  EXPECT_EQ(status.field, "tensor.data");
}

TEST(TensorStream, ReportsMissingDataAtTheEnd) {
  Random random(5);
  v1::TopKRequest request = Request(random, {10}, 0, 1, v1::DATA_TYPE_F32);
  request.mutable_tensor()->clear_data();
  const Engine engine({1, {}});
  auto stream = StartStream(engine, request);
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(stream->Feed(std::vector<std::byte>(39)).ok());
  EXPECT_EQ(stream->Finish().status().reason, "DATA_LENGTH");
}

TEST(TensorStream, RejectsAHeaderWithData) {
  Random random(5);
  const v1::TopKRequest request =
      Request(random, {10}, 0, 1, v1::DATA_TYPE_F32);
  const Engine engine({1, {}});
  EXPECT_EQ(StartStream(engine, request).status().reason, "HEADER_HAS_DATA");
}

}  // namespace
}  // namespace topk::testing
