// The Open Inference Protocol.
#include "tests/integration/oip.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/integration/rpc_status.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Oip, AcceptsLargeTensorsNextToKInAnyOrder) {
  const std::string seven("\7\0\0\0\0\0\0\0", 8);
  for (const int64_t count : {5000, 100000, 2000000}) {
    const v1::TopKRequest request = Request(v1::DATA_TYPE_F32, {count}, 0, 7);
    const v1::TopKResponse expected = Answer(request);
    ModelInferRequest translated = Translate(request);
    translated.mutable_parameters()->erase("k");
    AddK(translated, "INT64", seven);
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
      {[](R& r) { SetInt(r, "axis.x", 1); }, "is not one of"},
      {[](R& r) { SetInt(r, "", 1); }, "is not one of"},
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
         AddK(r, "FP32", std::string(4, 1));
       },
       "K must be one INT64"},
      {[&](R& r) {
         model(r, "directml_topk");
         AddK(r, "INT64", std::string(16, 1));
       },
       "K must be one INT64"},
      {[&](R& r) { AddK(r, "INT64", std::string(8, 1)); }, "k is set twice"},
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
    if (k_type != nullptr) AddK(request, k_type, k);
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
  for (const std::string name : {"onnx_topk", "nobody", "onnx_topk"}) {
    SCOPED_TRACE(name);
    const bool fails = name == "nobody";
    ModelInferRequest request = SmallInferRequest();
    request.set_model_name(name);
    ASSERT_TRUE(stream->Write(request));
    inference::ModelStreamInferResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    const ModelInferResponse& response = answer.infer_response();
    EXPECT_EQ(response.id(), "usual");
    EXPECT_THAT(answer.error_message(),
                HasSubstr(fails ? "unknown model: 'nobody'" : ""));
    EXPECT_EQ(response.raw_output_contents_size(), fails ? 0 : 2);
    EXPECT_EQ(response.parameters().count("triton_final_response"),
              fails ? 0u : 1u);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// A server that can receive small tensors only.
TEST(OipStatistics, CountEachRequestOnce) {
  const TestServer server({.max_inflight_bytes = 1 << 20});
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto code_of = [&](const v1::TopKRequest& request) {
    ModelInferResponse answer;
    grpc::ClientContext context;
    return stub->ModelInfer(&context, Translate(request), &answer).error_code();
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(code_of(OnnxRequest({1, 5, 3}, 2)), grpc::StatusCode::OK);
  }
  EXPECT_EQ(code_of(OnnxRequest({1, 5, 3}, 0)),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of(OnnxRequest(std::vector<float>(1 << 19), 1)),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto statistics = [&](const char* model, const char* version) {
    inference::ModelStatisticsRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelStatisticsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub->ModelStatistics(&context, request, &response).ok());
    return response.model_stats(0);
  };
  const inference::ModelStatistics all = statistics("onnx_topk", "11");
  const inference::InferStatistics& stats = all.inference_stats();
  EXPECT_EQ(all.version(), "11");
  EXPECT_EQ(all.inference_count(), 5u);
  EXPECT_EQ(all.execution_count(), 5u);
  EXPECT_GT(all.last_inference(), 0u);
  EXPECT_EQ(stats.fail().count(), 2u);
  for (const auto& part :
       {stats.success(), stats.queue(), stats.compute_input(),
        stats.compute_infer(), stats.compute_output()}) {
    EXPECT_EQ(part.count(), 5u);
    EXPECT_GT(part.ns(), 0u);
    EXPECT_LE(part.ns(), stats.success().ns());
  }
  EXPECT_EQ(statistics("onnx_topk", "24").inference_count(), 0u);
  EXPECT_EQ(statistics("directml_topk", "").version(), "0");
}

// tests/clients/oip reads the other descriptions with Triton's client.
TEST_F(Oip, DescribesTheDatatypesOfModels) {
  inference::ModelConfigRequest request;
  request.set_name("onnx_topk");
  inference::ModelConfigResponse config;
  grpc::ClientContext context;
  ASSERT_TRUE(oip_->ModelConfig(&context, request, &config).ok());
  EXPECT_EQ(config.config().output(1).data_type(), inference::TYPE_INT64);
  for (const auto& [model, datatypes] :
       {std::pair("directml_topk",
                  "FP32 FP16 INT32 INT16 INT8 UINT32 UINT16 UINT8 INT64 "
                  "UINT64"),
        // The protocol has no names for OpenVINO's other types.
        std::pair("openvino_topk",
                  "FP16 BF16 FP32 FP64 INT8 INT16 INT32 INT64 UINT8 UINT16 "
                  "UINT32 UINT64")}) {
    inference::ModelMetadataRequest of_model;
    of_model.set_name(model);
    inference::ModelMetadataResponse metadata;
    grpc::ClientContext one;
    ASSERT_TRUE(oip_->ModelMetadata(&one, of_model, &metadata).ok());
    EXPECT_EQ(metadata.properties().at("datatypes"), datatypes);
  }
}

// tests/clients/oip asks whether models are ready.
TEST(OipReadiness, FollowsTheHealthChecks) {
  TestServer server;
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto ready = [&] {
    grpc::ClientContext context;
    inference::ServerReadyResponse response;
    const bool ok = stub->ServerReady(&context, {}, &response).ok();
    return ok ? std::optional(response.ready()) : std::nullopt;
  };
  EXPECT_EQ(ready(), true);
  // A call in flight keeps the connection and the server alive.
  ManyCall call(server);
  call.Ask(OnnxRequest({1, 2}, 1));
  const std::jthread drain = StartDrain(server, std::chrono::seconds(1));
  EXPECT_TRUE(Eventually([&] { return ready() == false; }));
  EXPECT_TRUE(call.Finish().ok());
}

}  // namespace
}  // namespace topk::testing
