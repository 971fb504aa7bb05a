// Small messages with huge shapes must not be expensive for the server.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace topk::testing
