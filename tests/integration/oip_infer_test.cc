// Compares the results of ModelInfer and ModelStreamInfer with ComputeTopK's.
#include <cstring>
#include <functional>
#include <string>

#include "tests/integration/oip.h"
#include "tests/integration/rpc_status.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  ModelInferRequest request = SmallInferRequest();
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
  ExpectRefusal(request, kBad, "128 is not a valid INT8");
  request.mutable_inputs(0)->set_datatype("BYTES");
  ExpectRefusal(request, kBad, "datatype \"BYTES\" of input 'X'");
  request.mutable_inputs(0)->set_datatype("INT4");  // our extension
  ExpectRefusal(request, kBad, "datatype \"INT4\" of input 'X'");
  request = SmallInferRequest();
  request.add_raw_input_contents("more");
  ExpectRefusal(request, kBad, "2 raw_input_contents; its inputs use 1");
  request = SmallInferRequest();
  request.add_inputs()->set_name("K");
  request.mutable_inputs(1)->set_datatype("INT64");
  ExpectRefusal(request, kBad, "unable to find data for input tensor 'K'");
}

TEST_F(Oip, RejectsUnknownTensorsAndParameters) {
  constexpr auto kBad = grpc::StatusCode::INVALID_ARGUMENT;
  using R = ModelInferRequest;
  const auto add_k = [](R& r, const char* type, size_t bytes) {
    auto& input = *r.add_inputs();
    input.set_name("K");
    input.set_datatype(type);
    input.add_shape(1);
    r.add_raw_input_contents(std::string(bytes, 1));
  };
  const auto model = [](R& r, const char* name) {
    r.set_model_name(name);
    r.clear_model_version();
    r.clear_parameters();
  };
  const std::pair<std::function<void(R&)>, const char*> refusals[] = {
      {[](R& r) { r.set_model_version("1x"); },
       "failed to get model version from specified"},
      {[](R& r) {
         r.set_model_name("directml_topk");  // this model has a version 0
         r.set_model_version("99999999999");
       },
       "failed to get model version from specified"},
      {[](R& r) { r.mutable_inputs(0)->set_name("x"); },
       "unexpected inference input 'x' for model 'onnx_topk'"},
      {[](R& r) { r.add_outputs()->set_name("both"); },
       "unexpected inference output 'both'"},
      {[](R& r) {
         r.clear_inputs();
         r.clear_raw_input_contents();
       },
       "expected 1 inputs but got 0 inputs"},
      {[](R& r) { SetInt(r, "smallest", 1); },
       "\"smallest\" is not one of axis, k, largest"},
      {[](R& r) { SetText(r, "k", "2"); }, "\"k\" must be a whole number"},
      {[](R& r) {
         (*r.mutable_parameters())["k"].set_uint64_param(UINT64_MAX);
       },
       "\"k\" must be a whole number"},
      {[](R& r) { SetInt(r, "k.tensor", 1); }, "is not one of"},
      {[](R& r) { SetInt(r, "k.value.x", 1); }, "is not one of"},
      {[](R& r) { SetInt(r, "axis.x", 1); }, "is not one of"},
      {[](R& r) { SetInt(r, "", 1); }, "is not one of"},
      {[](R& r) { SetInt(r, "k.", 1); }, "is not one of"},
      {[&](R& r) {
         model(r, "openvino_topk");
         SetInt(r, "stable", 2);
       },
       "must be true or false"},
      {[&](R& r) {
         model(r, "directml_topk");
         SetText(r, "axis_direction", "up");
       },
       "\"up\" is not a value of"},
      {[&](R& r) {
         model(r, "directml_topk");
         SetInt(r, "axis_direction", -1);
       },
       "must be the number of an enum value"},
      {[&](R& r) {
         model(r, "directml_topk");
         add_k(r, "FP32", 4);
       },
       "K must be one INT64"},
      {[&](R& r) {
         model(r, "directml_topk");
         add_k(r, "INT64", 16);
       },
       "K must be one INT64"},
      {[&](R& r) { add_k(r, "INT64", 8); }, "k is set twice"},
  };
  for (const auto& [change, message] : refusals) {
    ModelInferRequest request = SmallInferRequest();
    change(request);
    ExpectRefusal(request, kBad, message);
  }
  ModelInferRequest request = SmallInferRequest();
  request.set_model_version("12");
  ExpectRefusal(request, grpc::StatusCode::NOT_FOUND,
                "Request for unknown model: 'onnx_topk' version 12 is not");
}

// Errors name a parameter or an input that the client can set.
TEST_F(Oip, ErrorsNameParametersAndInputs) {
  const auto field_of = [&](const char* version, const char* k_type,
                            const std::string& k, int64_t offset) {
    ModelInferRequest request = SmallInferRequest();
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

TEST_F(Oip, IgnoresReservedParameters) {
  ModelInferRequest request = SmallInferRequest();
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

// many_test.cc tests the order of many responses, with the same stream.
TEST_F(Oip, StreamsContinueAfterErrors) {
  grpc::ClientContext context;
  const auto stream = oip_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse answer;
  for (const std::string name : {"onnx_topk", "nobody", "onnx_topk"}) {
    ModelInferRequest request = SmallInferRequest();
    request.set_model_name(name);
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.infer_response().id(), "usual");
    if (name == "nobody") {
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
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
