// A request's cost is reported once, before any work is done.
#include <gtest/gtest.h>

#include "core/engine.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

// Returns a request for 170 Mi of 2^`bits` elements.
v1::TopKRequest Tall(int bits) {
  return OnnxRequest(v1::DATA_TYPE_F32, {1, int64_t{1} << bits, 1},
                     int64_t{170} << 20, 1);
}

// The request would need 2 GiB of outputs and many GiB of scratch memory, which
// the test must not allocate.
TEST(Cost, AllocatesNothing) {
  const Engine engine({1, {}});
  EXPECT_EQ(engine.PrepareStream(Tall(27)).status().reason,
            "K_EXCEEDS_DIMENSION");
  const auto prepared = engine.PrepareStream(Tall(28));
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->cost.output_bytes, (int64_t{170} << 20) * 12);
  EXPECT_GT(prepared->cost.working_bytes, int64_t{5} << 30);
}

TEST(Cost, OfAnEmptyTensorIsNothingWhateverItsShape) {
  const Engine engine({2, {}});
  for (const int64_t k : {int64_t{1}, int64_t{1} << 29, int64_t{1} << 30}) {
    const v1::TopKRequest request =
        OnnxRequest(v1::DATA_TYPE_F32, {0, int64_t{1} << 30}, k);
    EXPECT_EQ(engine.Prepare(request, 0, 1)->cost.working_bytes, 0);
    EXPECT_EQ(engine.PrepareStream(request)->cost.working_bytes, 0);
  }
}

// A sort numbers its candidates with 32 bits. Only packed types are small
// enough for the output limit to allow more candidates.
TEST(Limits, BoundTheSelectedElementsTo32Bits) {
  const Engine engine({1, {}});
  constexpr int64_t kTooMany = int64_t{1} << 32;
  v1::TopKRequest request =
      OpenVinoRequest(v1::DATA_TYPE_U1, {kTooMany}, kTooMany);
  request.mutable_openvino()->set_index_element_type("i64");
  request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  EXPECT_EQ(engine.PrepareStream(request).status().reason, "TOO_MANY_SELECTED");
  request.mutable_openvino()->mutable_k()->set_value(kTooMany - 1);
  EXPECT_TRUE(engine.PrepareStream(request).ok());
}

// One selection per column would need far more memory than the output does.
TEST(Limits, BoundTheColumnsOfAStream) {
  v1::TopKRequest header = OnnxRequest(v1::DATA_TYPE_U8, {3, 333334}, 1, 0);
  header.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  const Engine engine({1, {1 << 30, 64000000}});
  EXPECT_EQ(engine.PrepareStream(header).status().reason, "TOO_MANY_COLUMNS");
  header.mutable_tensor()->set_shape(1, 333333);
  EXPECT_TRUE(engine.PrepareStream(header).ok());
}

}  // namespace
}  // namespace topk::testing
