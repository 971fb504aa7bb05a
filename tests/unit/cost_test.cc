// A request's cost is reported once, before any work on it.
#include <gtest/gtest.h>

#include "core/engine.h"
#include "tests/unit/run_plan.h"

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

TEST(Cost, OfAnInvalidRequestIsNotReported) {
  const Engine engine({1, {}});
  EXPECT_FALSE(engine.Prepare(Request({1, 10}, 11), 40, 1).ok());
  EXPECT_FALSE(engine.Prepare(Request({1, 11}, 1), 40, 1).ok());
  EXPECT_FALSE(engine.PrepareStream(Request({1, 10}, 0)).ok());
}

// The request would take 2 GiB of outputs and many GiB of scratch memory; the
// test must not allocate them.
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

// In long rows by far the most is two words for each element that is sorted.
TEST(Cost, OfASortIsTwoItemsForEachElement) {
  const Engine engine({2, {}});
  constexpr int64_t kN = 100000;
  const auto prepared = engine.Prepare(Request({1, kN}, kN), 4 * kN, 1);
  EXPECT_GE(prepared->cost.working_bytes, 16 * kN);
  EXPECT_LT(prepared->cost.working_bytes, 17 * kN);
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

// Elements of less than a byte take one each: what is sorted, what is selected.
TEST(Cost, OfAPackedSortIncludesUnpackedBytes) {
  const Engine engine({2, {}});
  constexpr int64_t kN = 100000;
  v1::TopKRequest request = PackedRequest(kN, kN);
  for (const bool values : {true, false}) {
    if (!values) {
      request.mutable_output()->set_selection(
          v1::OUTPUT_SELECTION_INDICES_ONLY);
    }
    const Cost whole = engine.Prepare(request, kN / 8, 1)->cost;
    EXPECT_EQ(whole.output_bytes, kN * 4 + (values ? kN / 8 : 0));
    EXPECT_GE(whole.working_bytes, (values ? 18 : 17) * kN);
    EXPECT_LT(whole.working_bytes, (values ? 19 : 18) * kN);
    const Cost streamed = engine.PrepareStream(request)->cost;
    EXPECT_GE(streamed.working_bytes, (values ? 17 : 16) * kN);
    EXPECT_LT(streamed.working_bytes, 3 * whole.working_bytes);
  }
}

TEST(Cost, OfAnEmptyTensorIsNothingWhateverItsShape) {
  const Engine engine({2, {}});
  for (const int64_t k : {int64_t{1}, int64_t{1} << 29, int64_t{1} << 30}) {
    const v1::TopKRequest request = Request({0, int64_t{1} << 30}, k);
    EXPECT_EQ(engine.Prepare(request, 0, 1)->cost.working_bytes, 0);
    EXPECT_EQ(engine.PrepareStream(request)->cost.working_bytes, 0);
  }
}

// Candidates are numbered in 32 bits when they are sorted: values alone of a
// packed type are small enough to exceed that.
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

TEST(Limits, BoundTheSelectedElements) {
  Limits limits;
  limits.max_selected_elements = 12;
  const Engine engine({1, limits});
  const std::vector<std::byte> data(120);
  EXPECT_TRUE(engine.Compute(Request({3, 10}, 4), data).ok());
  const Status status = engine.Compute(Request({3, 10}, 5), data).status();
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "TOO_MANY_SELECTED");
  EXPECT_NE(status.message.find("15"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("12"), std::string::npos) << status.message;
  EXPECT_EQ(engine.GetCapabilities().limits().max_selected_elements(), 12);
}

}  // namespace
}  // namespace topk::testing
