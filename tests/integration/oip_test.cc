// The Open Inference Protocol.
#include "tests/integration/oip.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/oip/regions.h"

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

// Errors name a parameter or an input that the client can set.
TEST_F(Oip, NamesTheFieldOfAnInvalidRequest) {
  const auto code = grpc::StatusCode::INVALID_ARGUMENT;
  const std::string x = "model_name:'onnx_topk' inputs{name:'X' shape:2 ";
  const std::string f32 = x + "datatype:'FP32' ";
  const std::string data = "} raw_input_contents:'12345678' ";
  const std::string good = f32 + data;
  const std::string dml = good + "model_name:'directml_topk' ";
  const std::string k_input = "inputs{name:'K' shape:1 datatype:";
  const auto parameter = [](const std::string& name, const std::string& value) {
    return StrCat("parameters{key:'", name, "' value{", value, "}} ");
  };
  struct Case {
    std::string request;
    const char* field;
    const char* message = "";
  };
  const Case cases[] = {
      {f32 + "contents{fp32_contents:1}" + data, "inputs.contents",
       "contents field must not be specified when using raw_input_contents or "
       "shared memory for 'X' for model 'onnx_topk'"},
      {f32 + "contents{fp32_contents:1}}" + parameter("k", "int64_param:1"),
       "inputs[X].contents", "has 4 bytes of data"},
      {f32 + "contents{fp32_contents:1 int_contents:1}}", "inputs.contents",
       "unexpected explicit tensor data"},
      {x + "datatype:'FP16' contents{fp32_contents:1}}", "inputs.contents",
       "unexpected explicit tensor data"},
      {x + "datatype:'INT8' contents{int_contents:128}}", "inputs.contents",
       "128 is not a valid INT8"},
      {x + "datatype:'BYTES'" + data, "inputs.datatype",
       "datatype \"BYTES\" of input 'X'"},
      {x + "datatype:'INT4'" + data, "inputs.datatype",  // our extension
       "datatype \"INT4\" of input 'X'"},
      {good + "raw_input_contents:'more'", "raw_input_contents",
       "2 raw_input_contents; its inputs use 1"},
      {good + k_input + "'INT64'}", "raw_input_contents",
       "unable to find data for input tensor 'K'"},
      {good + "model_version:'1x'", "model_version",
       "failed to get model version from specified"},
      {dml + "model_version:'99999999999'", "model_version",
       "failed to get model version from specified"},
      {"model_name:'onnx_topk' inputs{name:'x' datatype:'FP32'" + data,
       "inputs", "unexpected inference input 'x' for model 'onnx_topk'"},
      {good + "outputs{name:'values'} outputs{name:'values'}", "outputs",
       "'values' for model 'onnx_topk' is requested twice"},
      {good + "outputs{name:'both'}", "outputs",
       "unexpected inference output 'both'"},
      {"model_name:'onnx_topk'", "inputs",
       "expected 1 inputs but got 0 inputs"},
      {good + parameter("smallest", "int64_param:1"),
       "parameters[\"smallest\"]",
       "\"smallest\" is not one of axis, k, largest"},
      {good + parameter("k.tensor", "int64_param:1"),
       "parameters[\"k.tensor\"]", "is not one of"},
      {good + parameter("axis.x", "int64_param:1"), "parameters[\"axis.x\"]",
       "is not one of"},
      {good + parameter("", "int64_param:1"), "parameters[\"\"]",
       "is not one of"},
      {good + parameter("k", "string_param:'2'"), "parameters[\"k\"]",
       "\"k\" must be a whole number"},
      {good + parameter("k", "uint64_param:18446744073709551615"),
       "parameters[\"k\"]", "\"k\" must be a whole number"},
      {good + "model_name:'openvino_topk'" +
           parameter("stable", "int64_param:2"),
       "parameters[\"stable\"]", "must be true or false"},
      {dml + parameter("axis_direction", "string_param:'up'"),
       "parameters[\"axis_direction\"]", "\"up\" is not a value of"},
      {dml + parameter("axis_direction", "int64_param:-1"),
       "parameters[\"axis_direction\"]", "must be the number of an enum value"},
      {dml + k_input + "'FP32'} raw_input_contents:'1234'", "inputs",
       "K must be one INT64"},
      {dml + k_input + "'INT64'} raw_input_contents:'1234567812345678'",
       "inputs", "K must be one INT64"},
      {dml + k_input + "'INT64' shape:-7} raw_input_contents:'12345678'",
       "inputs", "K must be one INT64"},
      {good + parameter("k", "int64_param:1") + k_input +
           "'INT64'} raw_input_contents:'12345678'",
       "parameters[\"k\"]", "k is set twice"},
      {good, "parameters[\"k\"]"},
      {good + parameter("k", "int64_param:2") +
           parameter("index_offset", "int64_param:-1"),
       "parameters[\"index_offset\"]"},
      {good + k_input + "'INT32'} raw_input_contents:'1234'",
       "inputs[K].datatype"},
      {good + k_input + "'INT64'} raw_input_contents:'12345678'", "inputs[K]"},
      {good + "model_version:'1'" + k_input +
           "'INT64'} raw_input_contents:'12345678'",
       "inputs[K]"},
  };
  for (const auto& [text, field, message] : cases) {
    SCOPED_TRACE(text);
    ModelInferRequest request;
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &request));
    const std::string full = ExpectRefusal(request, code, message, field);
    for (const char* ours : {"onnx.", ".value", ".tensor"}) {
      if (text.find(ours) != std::string::npos) continue;
      EXPECT_THAT(full, Not(HasSubstr(ours)));
    }
  }
  ModelInferRequest request = SmallInferRequest();
  request.set_model_version("12");
  ExpectRefusal(request, grpc::StatusCode::NOT_FOUND,
                "Request for unknown model: 'onnx_topk' version 12 is not",
                "model_version");
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

// A server that can receive small tensors only.
TEST(OipStatistics, CountEachRequestOnce) {
  const TestServer server({.max_inflight_bytes = 1 << 20});
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto code_of = [&](const v1::TopKRequest& request) {
    return CallUnary(*stub, &OipStub::ModelInfer, Translate(request))
        .status.error_code();
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
    const auto answered = CallUnary(*stub, &OipStub::ModelStatistics, request);
    EXPECT_TRUE(answered.status.ok());
    return answered.response.model_stats(0);
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
  const auto config =
      CallUnary(*oip_, &OipStub::ModelConfig, request).response.config();
  EXPECT_EQ(config.output(1).data_type(), inference::TYPE_INT64);
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
    const auto metadata = CallUnary(*oip_, &OipStub::ModelMetadata, of_model);
    EXPECT_EQ(metadata.response.properties().at("datatypes"), datatypes);
  }
}

// tests/clients/oip asks whether models are ready.
TEST(OipReadiness, FollowsTheHealthChecks) {
  TestServer server;
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto ready = [&] {
    const auto answered = CallUnary(*stub, &OipStub::ServerReady);
    return answered.status.ok() ? std::optional(answered.response.ready())
                                : std::nullopt;
  };
  EXPECT_EQ(ready(), true);
  // A call in flight keeps the connection and the server alive.
  ManyCall call(server);
  call.Ask(OnnxRequest({1, 2}, 1));
  const std::jthread drain = StartDrain(server, std::chrono::seconds(1));
  EXPECT_TRUE(Eventually([&] { return ready() == false; }));
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(Oip, ReadsInputsAndWritesOutputsInSharedMemory) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 20000);
  Write(plain.tensor().data(), 100, memory);
  ASSERT_TRUE(Register("all", memory).ok());
  EXPECT_EQ(Register("all", memory).error_message(),
            "shared memory region 'all' already in manager");
  ModelInferRequest request = ExpectInRegion(plain, expected, 100);
  EXPECT_EQ(Bytes(memory, memory.Region(9000, 480)), expected.values().data());
  // With the tensor in shared memory, K comes first in the raw contents.
  ModelInferRequest with_k = request;
  with_k.clear_outputs();
  with_k.mutable_parameters()->erase("k");
  AddK(with_k, "INT64", std::string("\3\0\0\0\0\0\0\0", 8));
  ExpectSame(Infer(with_k), expected);

  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  ModelInferRequest short_input = request;
  SetRegion("all", 100, 7999,
            *short_input.mutable_inputs(0)->mutable_parameters());
  ExpectRefusal(short_input, kInvalid, "7999", "inputs[X].parameters");
  auto& output = *request.mutable_outputs(0)->mutable_parameters();
  SetRegion("all", 19000, 1001, output);
  ExpectRefusal(request, kInvalid,
                "Invalid offset + byte size for shared memory region: 'all'",
                "shared_memory_byte_size");
  output.erase("shared_memory_byte_size");
  ExpectRefusal(request, kInvalid, "shared_memory_byte_size is required",
                "shared_memory_byte_size");

  const auto status = CallUnary(*oip_, &OipStub::SystemSharedMemoryStatus);
  EXPECT_EQ(status.response.regions().at("all").key(), memory.name());
  inference::SystemSharedMemoryUnregisterRequest unregister;
  unregister.set_name("all");
  EXPECT_TRUE(
      CallUnary(*oip_, &OipStub::SystemSharedMemoryUnregister, unregister)
          .status.ok());
  ExpectRefusal(short_input, grpc::StatusCode::NOT_FOUND,
                "Unable to find shared memory region: 'all'",
                "shared_memory_region");
}

TEST(OipRegions, BelongToTheClientThatRegisteredThem) {
  SharedObjects objects("/topk-test");
  Regions regions(&objects, nullptr);
  Caller alice;
  alice.is_local = true;
  alice.key = "alice";
  Caller bob = alice;
  bob.key = "bob";
  const SharedMemory memory = Make(Name("x"), 100);
  const auto registered = [&](const char* name, const Caller& caller) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(memory.name());
    request.set_byte_size(100);
    return regions.Register(request, caller).code;
  };
  const auto names = [&](const char* name) {
    inference::SystemSharedMemoryStatusResponse response;
    const Status status = regions.List(name, response);
    EXPECT_EQ(status.ok(), response.regions_size() > 0) << status.message;
    std::string found;
    for (const auto& [each, _] : response.regions()) found += each;
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(registered("a", alice), Code::kOk);
  EXPECT_EQ(registered("b", alice), Code::kOk);
  EXPECT_EQ(registered("c", bob), Code::kOk);
  EXPECT_EQ(registered("a", bob), Code::kAlreadyExists);
  EXPECT_EQ(regions.Unregister("a", bob, false).code, Code::kPermissionDenied);
  EXPECT_TRUE(regions.Unregister("none", bob, false).ok());
  EXPECT_EQ(names(""), "abc");
  EXPECT_TRUE(regions.Unregister("", bob, false).ok());
  EXPECT_EQ(names(""), "ab");
  EXPECT_EQ(names("b"), "b");
  EXPECT_TRUE(regions.Unregister("b", alice, false).ok());
  EXPECT_EQ(names("b"), "");
}

TEST_F(Oip, NamesTheFieldOfAWrongRegistration) {
  const SharedMemory memory = Make(Name("fields"), 8);
  const auto field_of = [this](const std::string& key, uint64_t offset,
                               uint64_t bytes) {
    return DetailsOf(testing::Register(*oip_, "c", key, bytes, offset))
        .bad_request.field_violations(0)
        .field();
  };
  EXPECT_EQ(field_of("no slash", 0, 8), "key");
  EXPECT_EQ(testing::Register(*oip_, "c", "/other", 8).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(field_of(memory.name(), 9, 0), "offset");
  EXPECT_EQ(field_of(memory.name(), 0, 9), "byte_size");
}

TEST(OipSharedMemory, IsRejectedUnlessAllowed) {
  const TestServer server;
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const grpc::Status status = Register(*stub, "a", "/topk-a", 0);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--allow-shared-memory"));
  ModelInferRequest request = Translate(OnnxRequest({1, 2}, 1));
  SetRegion("a", 0, 8, *request.mutable_inputs(0)->mutable_parameters());
  request.clear_raw_input_contents();
  const grpc::Status infer =
      CallUnary(*stub, &OipStub::ModelInfer, request).status;
  EXPECT_EQ(infer.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(DetailsOf(infer).info.metadata().at("field"),
            "shared_memory_region");
}

}  // namespace
}  // namespace topk::testing
