// Small messages with huge shapes must not be expensive for the server.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/engine.h"
#include "tests/support/compute.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

// An empty tensor's stream must not allocate selections for its 2^36 columns.
TEST(HostileShapes, StreamOfAnEmptyTensorKeepsNoSelections) {
  const v1::TopKRequest header =
      OnnxRequest(v1::DATA_TYPE_U8, {0, 3, int64_t{1} << 36}, 1, 1);
  const Engine engine({1, {}});
  auto stream = StartStream(engine, header);
  ASSERT_TRUE(stream.ok()) << stream.status().message;
  const auto answer = (*stream)->Finish();
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().shape_size(), 3);
  EXPECT_TRUE(answer->values().data().empty());
}

// One selection per column would need far more memory than the output does.
TEST(HostileShapes, StreamOfManyColumnsIsRejectedByItsHeader) {
  v1::TopKRequest header = OnnxRequest(v1::DATA_TYPE_U8, {3, 333334}, 1, 0);
  header.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  const Engine engine({1, {1 << 30, 64000000}});
  const auto refused = StartStream(engine, header);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().reason, "TOO_MANY_COLUMNS");
  header.mutable_tensor()->set_shape(1, 333333);
  EXPECT_TRUE(StartStream(engine, header).ok());
}

// The cost of a slice grows with the rank, so the rank is limited.
TEST(HostileShapes, RejectsARankAboveTheLimit) {
  std::vector<int64_t> shape(64, 1);
  shape[0] = 2;
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_U8, shape, 1);
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
  v1::TopKRequest request = DirectMLRequest(v1::DATA_TYPE_U8, {4294967295}, 2);
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
