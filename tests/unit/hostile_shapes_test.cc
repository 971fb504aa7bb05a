// Small messages with huge shapes must not be expensive for the server.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/engine.h"
#include "tests/support/compute.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

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
