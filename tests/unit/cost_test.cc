// A request's cost is reported once, before any work is done.
#include <gtest/gtest.h>

#include "core/engine.h"

namespace topk::testing {
namespace {

v1::TopKRequest Request(std::vector<int64_t> shape, int64_t k) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->set_axis(1);
  request.mutable_onnx()->mutable_k()->set_value(k);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  return request;
}

TEST(Cost, IsThatOfTheAnswerInEachWay) {
  const Engine engine({2, {}});
  v1::TopKRequest request = Request({3, 50, 4}, 7);
  for (const bool indices : {true, false}) {
    if (!indices) {
      request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
    }
    for (int way = 0; way < 3; ++way) {
      const auto prepared = way == 2 ? engine.PrepareStream(request)
                                     : engine.Prepare(request, 2400, way + 1);
      ASSERT_TRUE(prepared.ok()) << prepared.status().message;
      const Cost& cost = prepared->cost;
      EXPECT_EQ(cost.input_bytes, 2400);
      EXPECT_GT(cost.nanoseconds, 0);
      EXPECT_EQ(cost.output_bytes, 84 * (indices ? 12 : 4));
      EXPECT_GT(cost.working_bytes, 0);
      EXPECT_LT(cost.working_bytes, 200000);
    }
  }
}

// The request would need 2 GiB of outputs and many GiB of scratch memory, which
// the test must not allocate.
TEST(Cost, AllocatesNothing) {
  const Engine engine({1, {}});
  EXPECT_EQ(
      engine
          .PrepareStream(Request({1, int64_t{1} << 27, 1}, int64_t{170} << 20))
          .status()
          .reason,
      "K_EXCEEDS_DIMENSION");
  const auto prepared = engine.PrepareStream(
      Request({1, int64_t{1} << 28, 1}, int64_t{170} << 20));
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->cost.output_bytes, (int64_t{170} << 20) * 12);
  EXPECT_GT(prepared->cost.working_bytes, int64_t{5} << 30);
}

v1::TopKRequest PackedRequest(int64_t n, int64_t k) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  request.mutable_openvino()->set_axis(0);
  request.mutable_openvino()->set_mode("max");
  request.mutable_openvino()->set_sort("value");
  request.mutable_openvino()->mutable_k()->set_value(k);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U1);
  request.mutable_tensor()->add_shape(n);
  return request;
}

TEST(Cost, OfAnEmptyTensorIsNothingWhateverItsShape) {
  const Engine engine({2, {}});
  for (const int64_t k : {int64_t{1}, int64_t{1} << 29, int64_t{1} << 30}) {
    const v1::TopKRequest request = Request({0, int64_t{1} << 30}, k);
    EXPECT_EQ(engine.Prepare(request, 0, 1)->cost.working_bytes, 0);
    EXPECT_EQ(engine.PrepareStream(request)->cost.working_bytes, 0);
  }
}

// A sort numbers its candidates with 32 bits. Only packed types are small
// enough for the output limit to allow more candidates.
TEST(Limits, BoundTheSelectedElementsTo32Bits) {
  const Engine engine({1, {}});
  constexpr int64_t kTooMany = int64_t{1} << 32;
  v1::TopKRequest request = PackedRequest(kTooMany, kTooMany);
  request.mutable_openvino()->set_index_element_type("i64");
  request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  EXPECT_EQ(engine.PrepareStream(request).status().reason, "TOO_MANY_SELECTED");
  request.mutable_openvino()->mutable_k()->set_value(kTooMany - 1);
  EXPECT_TRUE(engine.PrepareStream(request).ok());
}

}  // namespace
}  // namespace topk::testing
