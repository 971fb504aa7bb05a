// Small messages with huge shapes must not be expensive for the server.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/engine.h"
#include "tests/support/compute.h"

namespace topk::testing {
namespace {

v1::TopKRequest SmallU8Request() {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(1);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U8);
  return request;
}

// A stream of an empty tensor must not allocate state for its 2^36 columns.
TEST(HostileShapes, StreamOfAnEmptyTensorKeepsNoSelections) {
  v1::TopKRequest header = SmallU8Request();
  header.mutable_onnx()->set_axis(1);
  for (const int64_t size : {int64_t{0}, int64_t{3}, int64_t{1} << 36}) {
    header.mutable_tensor()->add_shape(size);
  }
  const Engine engine({1, {}});
  Result<TensorStream> stream = StartStream(engine, header);
  ASSERT_TRUE(stream.ok()) << stream.status().message;
  const auto answer = stream->Finish();
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().shape_size(), 3);
  EXPECT_TRUE(answer->values().data().empty());
}

// A selection per column would need far more memory than the output.
TEST(HostileShapes, StreamOfManyColumnsIsRejectedByItsHeader) {
  v1::TopKRequest header = SmallU8Request();
  header.mutable_onnx()->set_axis(0);
  header.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  header.mutable_tensor()->add_shape(3);
  header.mutable_tensor()->add_shape(333334);
  const Engine engine({1, {1 << 30, 64000000}});
  const auto refused = StartStream(engine, header);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().reason, "TOO_MANY_COLUMNS");
  header.mutable_tensor()->set_shape(1, 333333);
  EXPECT_TRUE(StartStream(engine, header).ok());
}

// The cost of a slice grows with the rank, so the rank is limited.
TEST(HostileShapes, RejectsARankAboveTheLimit) {
  v1::TopKRequest request = SmallU8Request();
  request.mutable_tensor()->add_shape(2);
  for (int i = 1; i < 64; ++i) request.mutable_tensor()->add_shape(1);
  request.mutable_tensor()->set_data("xy");
  const Engine engine({1, {}});
  const auto answer = Compute(engine, request);
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().data(), "xy");
  request.mutable_tensor()->add_shape(1);
  EXPECT_EQ(Compute(engine, request).status().reason, "RANK_TOO_HIGH");
}

// One element is repeated 2^32 - 1 times, so the result is the first k.
TEST(HostileShapes, BroadcastAlongTheAxisTakesConstantTime) {
  v1::TopKRequest request = SmallU8Request();
  request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  request.mutable_spec()->set_version(0);
  request.mutable_directml()->set_axis(0);
  request.mutable_directml()->set_k(2);
  request.mutable_tensor()->add_shape(4294967295);
  request.mutable_tensor()->add_strides(0);
  request.mutable_tensor()->set_data("x");
  const Engine engine({1, {}});
  const auto start = std::chrono::steady_clock::now();
  const auto answer = Compute(engine, request);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().data(), "xx");
  EXPECT_EQ(answer->indices().data(), std::string("\0\0\0\0\1\0\0\0", 8));
}

}  // namespace
}  // namespace topk::testing
