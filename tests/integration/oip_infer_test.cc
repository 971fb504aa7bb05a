// ModelInfer and ModelStreamInfer, compared with ComputeTopK.
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/integration/oip.h"
#include "tests/integration/rpc_status.h"
#include "tests/support/generators.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Oip, HasTheResultsOfComputeTopKForEveryModelAndType) {
  Random random(Seed(11));
  std::set<std::string> asked;
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    const v1::TopKRequest request = RandomRequest(random);
    if (!IsSayable(request)) continue;
    const Asked expected = Ask(*stub_, request);
    ModelInferResponse answer;
    const grpc::Status status = Infer(Translate(request), answer);
    ASSERT_EQ(status.error_code(), expected.status.error_code())
        << request.ShortDebugString() << status.error_message();
    if (!status.ok()) continue;
    ExpectSame(answer, expected.response);
    ASSERT_FALSE(HasFailure()) << request.ShortDebugString();
    EXPECT_EQ(answer.id(), request.request_id());
    asked.insert(answer.model_name() + answer.model_version() +
                 NameOf(request.tensor().data_type()));
    ++compared;
  }
  EXPECT_GT(compared, 1500);
  EXPECT_GT(asked.size(), 60u);  // models, versions and types
}

TEST_F(Oip, AcceptsLargeTensorsNextToKInAnyOrder) {
  for (const int64_t count : {5000, 100000, 2000000}) {
    v1::TopKRequest request = Request(v1::DATA_TYPE_F32, {count}, 0, 7);
    const v1::TopKResponse expected = Answer(request);
    v1::Tensor& k = *request.mutable_onnx()->mutable_k()->mutable_tensor();
    k.set_data_type(v1::DATA_TYPE_I64);
    k.add_shape(1);
    k.set_data(std::string("\7\0\0\0\0\0\0\0", 8));
    ModelInferRequest translated = Translate(request);
    ExpectSame(Infer(translated), expected);
    translated.mutable_inputs()->SwapElements(0, 1);
    translated.mutable_raw_input_contents()->SwapElements(0, 1);
    ExpectSame(Infer(translated), expected);
  }
}

// The request with its raw contents as typed ones.
template <class Element, class Numbers>
ModelInferRequest Typed(const v1::TopKRequest& request,
                        Numbers* (inference::InferTensorContents::*field)()) {
  ModelInferRequest typed = Translate(request);
  typed.clear_raw_input_contents();
  const std::string& data = request.tensor().data();
  Numbers& numbers = *(typed.mutable_inputs(0)->mutable_contents()->*field)();
  for (size_t i = 0; i < data.size(); i += sizeof(Element)) {
    Element element;
    std::memcpy(&element, data.data() + i, sizeof(element));
    numbers.Add(element);
  }
  return typed;
}

TEST_F(Oip, AcceptsTypedContents) {
  using Contents = inference::InferTensorContents;
  const auto same = [&]<class Element>(v1::DataType type, Element, auto field) {
    const v1::TopKRequest request = Request(type, {6, 50}, 1, 9);
    ExpectSame(Infer(Typed<Element>(request, field)), Answer(request));
  };
  same(v1::DATA_TYPE_F32, float{}, &Contents::mutable_fp32_contents);
  same(v1::DATA_TYPE_F64, double{}, &Contents::mutable_fp64_contents);
  same(v1::DATA_TYPE_I8, int8_t{}, &Contents::mutable_int_contents);
  same(v1::DATA_TYPE_I16, int16_t{}, &Contents::mutable_int_contents);
  same(v1::DATA_TYPE_I32, int32_t{}, &Contents::mutable_int_contents);
  same(v1::DATA_TYPE_I64, int64_t{}, &Contents::mutable_int64_contents);
  same(v1::DATA_TYPE_U8, uint8_t{}, &Contents::mutable_uint_contents);
  same(v1::DATA_TYPE_U16, uint16_t{}, &Contents::mutable_uint_contents);
  same(v1::DATA_TYPE_U32, uint32_t{}, &Contents::mutable_uint_contents);
  same(v1::DATA_TYPE_U64, uint64_t{}, &Contents::mutable_uint64_contents);
}

TEST_F(Oip, RejectsInvalidContents) {
  constexpr auto kBad = grpc::StatusCode::INVALID_ARGUMENT;
  ModelInferRequest request = Usual();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectRefusal(request, kBad,
                "contents field must not be specified when using "
                "raw_input_contents for 'X' for model 'onnx_topk'");
  request.clear_raw_input_contents();
  ExpectRefusal(request, kBad, "has 4 bytes of data");
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  ExpectRefusal(request, kBad, "unexpected explicit tensor data");
  request.mutable_inputs(0)->set_datatype("FP16");
  ExpectRefusal(request, kBad, "unexpected explicit tensor data");
  request.mutable_inputs(0)->set_datatype("INT8");
  request.mutable_inputs(0)->mutable_contents()->Clear();
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(128);
  ExpectRefusal(request, kBad, "128 is no INT8");
  request.mutable_inputs(0)->set_datatype("BYTES");
  ExpectRefusal(request, kBad, "datatype \"BYTES\" of input 'X'");
  request.mutable_inputs(0)->set_datatype("INT4");  // ours, not the protocol's
  ExpectRefusal(request, kBad, "datatype \"INT4\" of input 'X'");
  request = Usual();
  request.add_raw_input_contents("more");
  ExpectRefusal(request, kBad, "2 raw_input_contents for 1 inputs");
  request = Usual();
  request.add_inputs()->set_name("K");
  request.mutable_inputs(1)->set_datatype("INT64");
  ExpectRefusal(request, kBad, "unable to find data for input tensor 'K'");
}

TEST_F(Oip, RejectsLargeTypedContents) {
  constexpr int kElements = 3 << 20;
  ModelInferRequest request = Usual();
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->set_shape(0, kElements);
  const std::vector<float> ones(kElements, 1);
  request.mutable_inputs(0)
      ->mutable_contents()
      ->mutable_fp32_contents()
      ->Assign(ones.begin(), ones.end());
  ExpectRefusal(request, grpc::StatusCode::RESOURCE_EXHAUSTED,
                "must have its tensor in raw_input_contents");
}

TEST_F(Oip, RejectsUnknownTensorsAndParameters) {
  constexpr auto kBad = grpc::StatusCode::INVALID_ARGUMENT;
  constexpr auto kNotFound = grpc::StatusCode::NOT_FOUND;
  ModelInferRequest request = Usual();
  request.set_model_name("resnet");
  ExpectRefusal(request, kNotFound,
                "Request for unknown model: 'resnet' is not found");
  request = Usual();
  request.set_model_version("12");
  ExpectRefusal(request, kNotFound,
                "Request for unknown model: 'onnx_topk' version 12 is not");
  request.set_model_version("1x");
  ExpectRefusal(request, kBad, "failed to get model version from specified");
  request.set_model_name("directml_topk");  // which has a version 0
  request.set_model_version("99999999999");
  ExpectRefusal(request, kBad, "failed to get model version from specified");
  request = Usual();
  request.mutable_inputs(0)->set_name("x");
  ExpectRefusal(request, kBad,
                "unexpected inference input 'x' for model 'onnx_topk'");
  request = Usual();
  request.add_outputs()->set_name("both");
  ExpectRefusal(request, kBad, "unexpected inference output 'both'");
  request = Usual();
  request.clear_inputs();
  request.clear_raw_input_contents();
  ExpectRefusal(request, kBad, "expected 1 inputs but got 0 inputs");
  request = Usual();
  SetInt(request, "smallest", 1);
  ExpectRefusal(request, kBad, "\"smallest\" is not one of axis, k, largest");
  request = Usual();
  SetText(request, "k", "2");
  ExpectRefusal(request, kBad, "\"k\" must be a whole number");
  for (const char* name : {"k.tensor", "k.value.x", "axis.x", "", "k."}) {
    request = Usual();
    SetInt(request, name, 1);
    ExpectRefusal(request, kBad, "is not one of");
  }
  request = Usual();
  (*request.mutable_parameters())["k"].set_uint64_param(UINT64_MAX);
  ExpectRefusal(request, kBad, "\"k\" must be a whole number");
  const auto refused = [&](const char* model, const auto& set,
                           const char* why) {
    request = Usual();
    request.set_model_name(model);
    request.clear_model_version();
    request.clear_parameters();
    set();
    ExpectRefusal(request, kBad, why);
  };
  refused(
      "openvino_topk", [&] { SetInt(request, "stable", 2); },
      "must be true or false");
  refused(
      "directml_topk", [&] { SetText(request, "axis_direction", "up"); },
      "\"up\" is not a value of");
  refused(
      "directml_topk", [&] { SetInt(request, "axis_direction", -1); },
      "must be the number of a value");
  const auto add_k = [&request](const char* type, size_t bytes) {
    auto& input = *request.add_inputs();
    input.set_name("K");
    input.set_datatype(type);
    input.add_shape(1);
    request.add_raw_input_contents(std::string(bytes, 1));
  };
  refused(
      "directml_topk", [&] { add_k("FP32", 4); }, "K must be one INT64");
  refused(
      "directml_topk", [&] { add_k("INT64", 16); }, "K must be one INT64");
  request = Usual();
  add_k("INT64", 8);
  ExpectRefusal(request, kBad, "k is set twice");
  request = Usual();
  SetInt(request, "k", 6);
  ModelInferResponse answer;
  const Details details = DetailsOf(Infer(request, answer));
  EXPECT_EQ(details.info.reason(), "K_EXCEEDS_DIMENSION");
  EXPECT_EQ(details.info.metadata().at("field"), "parameters[\"k\"]");
}

// Errors name a parameter or an input that the client can set.
TEST_F(Oip, ErrorsNameParametersAndInputs) {
  const auto field_of = [&](const char* version, const char* k_type,
                            const std::string& k, int64_t offset) {
    ModelInferRequest request = Usual();
    request.set_model_version(version);
    request.clear_parameters();
    SetInt(request, "index_offset", offset);
    if (k_type != nullptr) {
      auto& input = *request.add_inputs();
      input.set_name("K");
      input.set_datatype(k_type);
      input.add_shape(1);
      request.add_raw_input_contents(k);
    }
    ModelInferResponse answer;
    const grpc::Status status = Infer(request, answer);
    for (const char* ours : {"onnx.", ".value", ".tensor"}) {
      EXPECT_THAT(status.error_message(), Not(HasSubstr(ours)));
    }
    return DetailsOf(status).info.metadata().at("field");
  };
  const std::string two("\2\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(field_of("11", nullptr, "", 0), "parameters[\"k\"]");
  EXPECT_EQ(field_of("11", "INT64", two, -1), "parameters[\"index_offset\"]");
  EXPECT_EQ(field_of("11", "INT32", two.substr(0, 4), 0), "inputs[K].datatype");
  EXPECT_EQ(field_of("11", "INT64", std::string(8, '\0'), 0), "inputs[K]");
  EXPECT_EQ(field_of("1", "INT64", two, 0), "inputs[K]");
}

TEST_F(Oip, NamesOutputsThatAreTooLarge) {
  const TestServer small({.max_output_bytes = 1000});
  const auto stub = inference::GRPCInferenceService::NewStub(small.Connect());
  ModelInferRequest request = Usual();
  request.set_model_name("directml_topk");
  request.clear_model_version();
  request.clear_parameters();
  SetInt(request, "axis", 0);
  SetInt(request, "k", 400);
  SetText(request, "axis_direction", "decreasing");
  SetText(request, "output_index.data_type", "u64");
  request.mutable_inputs(0)->set_shape(0, 400);
  request.mutable_raw_input_contents(0)->assign(1600, '\0');
  grpc::ClientContext context;
  ModelInferResponse answer;
  const grpc::Status status = stub->ModelInfer(&context, request, &answer);
  EXPECT_EQ(DetailsOf(status).info.reason(), "OUTPUT_TOO_LARGE");
  EXPECT_EQ(DetailsOf(status).info.metadata().at("field"), "outputs");
}

// DirectML's input may be longer than its shape implies.
TEST_F(Oip, AcceptsPaddedBuffers) {
  const auto infer = [&](size_t bytes, ModelInferResponse& answer) {
    ModelInferRequest request = Usual();
    request.set_model_name("directml_topk");
    request.clear_model_version();
    request.clear_parameters();
    SetInt(request, "axis", 0);
    SetInt(request, "k", 1);
    SetText(request, "axis_direction", "decreasing");
    SetInt(request, "input_total_tensor_size_bytes", 40);
    request.mutable_raw_input_contents(0)->resize(bytes, '\x7f');
    return Infer(request, answer);
  };
  ModelInferResponse padded;
  ASSERT_TRUE(infer(40, padded).ok());
  EXPECT_EQ(padded.raw_output_contents(1), std::string("\1\0\0\0", 4));
  ModelInferResponse none;
  EXPECT_EQ(DetailsOf(infer(20, none)).info.reason(), "DATA_LENGTH");
}

TEST_F(Oip, IgnoresReservedParameters) {
  ModelInferRequest request = Usual();
  request.clear_model_version();
  auto& parameters = *request.mutable_parameters();
  parameters["priority"].set_uint64_param(1);
  parameters["timeout"].set_int64_param(1);
  parameters["sequence_id"].set_string_param("a");
  parameters["triton_enable_empty_final_response"].set_bool_param(false);
  const ModelInferResponse answer = Infer(request);
  EXPECT_EQ(answer.model_version(), "24");
  EXPECT_EQ(answer.id(), "usual");
  EXPECT_EQ(answer.raw_output_contents_size(), 2);
}

TEST_F(Oip, StreamsRespondInOrderAndContinueAfterErrors) {
  constexpr int kRequests = 500;
  grpc::ClientContext context;
  const auto stream = oip_->ModelStreamInfer(&context);
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      const int64_t size = i % 50 == 0 ? 100000 : 5;
      ModelInferRequest request = Translate(
          OnnxRequest(std::vector<float>(static_cast<size_t>(size), 1), 1));
      request.set_id(StrCat(i));
      if (i % 7 == 3) request.set_model_name("nobody");
      stream->Write(request);
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse answer;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(stream->Read(&answer)) << i;
    EXPECT_EQ(answer.infer_response().id(), StrCat(i));
    if (i % 7 == 3) {
      EXPECT_THAT(answer.error_message(), HasSubstr("unknown model: 'nobody'"));
      EXPECT_EQ(answer.infer_response().outputs_size(), 0);
      continue;
    }
    EXPECT_EQ(answer.error_message(), "");
    EXPECT_EQ(answer.infer_response().raw_output_contents_size(), 2);
    EXPECT_TRUE(answer.infer_response()
                    .parameters()
                    .at("triton_final_response")
                    .bool_param());
  }
  EXPECT_FALSE(stream->Read(&answer));
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
