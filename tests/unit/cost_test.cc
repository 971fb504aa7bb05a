// A request's cost is reported once, before any work on it.
#include <gtest/gtest.h>

#include <optional>

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

// Keeps what it is called with.
struct Admission {
  int calls = 0;
  Cost cost;
  Status status;

  ComputeOptions options() {
    return {nullptr, [this](const Cost& asked) {
              ++calls;
              cost = asked;
              return status;
            }};
  }
};

TEST(Cost, IsReportedOncePerRequest) {
  const Engine engine({2, {}});
  v1::TopKRequest request = Request({3, 50, 4}, 7);
  const std::string data = SomeData(DType::kF32, 600, 1);
  const auto bytes = std::as_bytes(std::span(data));
  for (const bool indices : {true, false}) {
    if (!indices) {
      request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
    }
    for (int way = 0; way < 3; ++way) {
      Admission admission;
      Result<v1::TopKResponse> answer = Status{Code::kUnknown, "", "", ""};
      if (way == 0) {
        answer = engine.Compute(request, bytes, admission.options());
      } else if (way == 1) {
        const std::span<const std::byte> pieces[] = {bytes.first(9),
                                                     bytes.subspan(9)};
        answer = engine.Compute(request, pieces, admission.options());
      } else {
        auto stream = TensorStream::Start(engine, request, admission.options());
        ASSERT_TRUE(stream.ok());
        EXPECT_EQ(admission.calls, 1);
        ASSERT_TRUE(stream->Feed(bytes).ok());
        answer = stream->Finish();
      }
      ASSERT_TRUE(answer.ok()) << answer.status().message;
      EXPECT_EQ(admission.calls, 1);
      EXPECT_EQ(admission.cost.input_bytes, 2400);
      EXPECT_GT(admission.cost.nanoseconds, 0);
      EXPECT_EQ(admission.cost.output_bytes, 84 * (indices ? 12 : 4));
      EXPECT_GT(admission.cost.working_bytes, 0);
      EXPECT_LT(admission.cost.working_bytes, 200000);
    }
  }
}

TEST(Cost, OfAnInvalidRequestIsNotReported) {
  const Engine engine({1, {}});
  Admission admission;
  const std::vector<std::byte> data(40);
  EXPECT_FALSE(
      engine.Compute(Request({1, 10}, 11), data, admission.options()).ok());
  EXPECT_FALSE(
      engine.Compute(Request({1, 11}, 1), data, admission.options()).ok());
  EXPECT_FALSE(
      TensorStream::Start(engine, Request({1, 10}, 0), admission.options())
          .ok());
  EXPECT_EQ(admission.calls, 0);
}

// The request would take 2 GiB of outputs and many GiB of scratch memory; the
// test must not allocate them.
TEST(Cost, RejectedRequestsAreNotPrepared) {
  const Engine engine({1, {}});
  Admission admission;
  admission.status = ResourceExhausted("BUSY", "", "not now");
  const auto stream = TensorStream::Start(
      engine, Request({1, int64_t{1} << 27, 1}, int64_t{170} << 20),
      admission.options());
  EXPECT_EQ(stream.status().reason, "K_EXCEEDS_DIMENSION");
  const auto refused = TensorStream::Start(
      engine, Request({1, int64_t{1} << 28, 1}, int64_t{170} << 20),
      admission.options());
  EXPECT_EQ(refused.status().reason, "BUSY");
  EXPECT_EQ(admission.calls, 1);
  EXPECT_EQ(admission.cost.output_bytes, (int64_t{170} << 20) * 12);
  EXPECT_GT(admission.cost.working_bytes, int64_t{5} << 30);
  admission.calls = 0;
  const std::vector<std::byte> data(40);
  EXPECT_EQ(engine.Compute(Request({1, 10}, 1), data, admission.options())
                .status()
                .reason,
            "BUSY");
  EXPECT_EQ(admission.calls, 1);
}

// In long rows by far the most is two words for each element that is sorted.
TEST(Cost, OfASortIsTwoItemsForEachElement) {
  const Engine engine({2, {}});
  Admission admission;
  constexpr int64_t kN = 100000;
  const std::string data = SomeData(DType::kF32, kN, 1);
  ASSERT_TRUE(engine
                  .Compute(Request({1, kN}, kN), std::as_bytes(std::span(data)),
                           admission.options())
                  .ok());
  EXPECT_GE(admission.cost.working_bytes, 16 * kN);
  EXPECT_LT(admission.cost.working_bytes, 17 * kN);
}

// Elements of less than a byte take one each: what is sorted, what is selected.
TEST(Cost, OfAPackedSortIncludesUnpackedBytes) {
  const Engine engine({2, {}});
  constexpr int64_t kN = 100000;
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  request.mutable_openvino()->set_axis(0);
  request.mutable_openvino()->set_mode("max");
  request.mutable_openvino()->set_sort("value");
  request.mutable_openvino()->mutable_k()->set_value(kN);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U1);
  request.mutable_tensor()->add_shape(kN);
  const std::string data = SomeData(DType::kU1, kN, 1);
  const auto bytes = std::as_bytes(std::span(data));
  for (const bool values : {true, false}) {
    if (!values) {
      request.mutable_output()->set_selection(
          v1::OUTPUT_SELECTION_INDICES_ONLY);
    }
    Admission admission;
    ASSERT_TRUE(engine.Compute(request, bytes, admission.options()).ok());
    EXPECT_EQ(admission.cost.output_bytes, kN * 4 + (values ? kN / 8 : 0));
    EXPECT_GE(admission.cost.working_bytes, (values ? 18 : 17) * kN);
    EXPECT_LT(admission.cost.working_bytes, (values ? 19 : 18) * kN);
    const Size whole = admission.cost.working_bytes;
    ASSERT_TRUE(TensorStream::Start(engine, request, admission.options()).ok());
    EXPECT_GE(admission.cost.working_bytes, (values ? 17 : 16) * kN);
    EXPECT_LT(admission.cost.working_bytes, 3 * whole);
  }
}

TEST(Cost, OfAnEmptyTensorIsNothingWhateverItsShape) {
  const Engine engine({2, {}});
  for (const int64_t k : {int64_t{1}, int64_t{1} << 29, int64_t{1} << 30}) {
    Admission admission;
    const v1::TopKRequest request = Request({0, int64_t{1} << 30}, k);
    ASSERT_TRUE(
        engine
            .Compute(request, std::span<const std::byte>(), admission.options())
            .ok());
    EXPECT_EQ(admission.cost.working_bytes, 0);
    ASSERT_TRUE(TensorStream::Start(engine, request, admission.options()).ok());
    EXPECT_EQ(admission.cost.working_bytes, 0);
  }
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
