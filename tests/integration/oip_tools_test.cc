// Methods of the Open Inference Protocol other than inference.
#include <string>
#include <thread>
#include <utility>

#include "tests/integration/oip.h"

namespace topk::testing {
namespace {

TEST_F(Oip, StatisticsCountEachRequestOnce) {
  for (int i = 0; i < 5; ++i) Infer(SmallInferRequest());
  ModelInferRequest wrong = SmallInferRequest();
  SetInt(wrong, "k", 0);
  ExpectRefusal(wrong, grpc::StatusCode::INVALID_ARGUMENT, "k = 0");
  const inference::ModelStatistics all = Statistics("onnx_topk", "11");
  const inference::InferStatistics& stats = all.inference_stats();
  EXPECT_EQ(all.version(), "11");
  EXPECT_EQ(all.inference_count(), 5u);
  EXPECT_EQ(all.execution_count(), 5u);
  EXPECT_GT(all.last_inference(), 0u);
  EXPECT_EQ(stats.fail().count(), 1u);
  for (const auto& part :
       {stats.success(), stats.queue(), stats.compute_input(),
        stats.compute_infer(), stats.compute_output()}) {
    EXPECT_EQ(part.count(), 5u);
    EXPECT_GT(part.ns(), 0u);
    EXPECT_LE(part.ns(), stats.success().ns());
  }
  EXPECT_EQ(Statistics("onnx_topk", "24").inference_count(), 0u);
  EXPECT_EQ(Statistics("directml_topk", "").version(), "0");
}

TEST_F(Oip, StatisticsCountRefusedRequests) {
  const TestServer server({.max_inflight_bytes = 1 << 20});
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  ModelInferResponse answer;
  grpc::ClientContext infer;
  EXPECT_EQ(
      stub->ModelInfer(&infer,
                       Translate(OnnxRequest(std::vector<float>(1 << 19), 1)),
                       &answer)
          .error_code(),
      grpc::StatusCode::RESOURCE_EXHAUSTED);
  inference::ModelStatisticsRequest request;
  request.set_name("onnx_topk");
  request.set_version("11");
  inference::ModelStatisticsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->ModelStatistics(&context, request, &response).ok());
  EXPECT_EQ(response.model_stats(0).inference_stats().fail().count(), 1u);
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

TEST(OipReadiness, FollowsTheHealthChecks) {
  TestServer server;
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto ready = [&] {
    grpc::ClientContext context;
    inference::ServerReadyResponse response;
    return stub->ServerReady(&context, {}, &response).ok() && response.ready();
  };
  const auto model_ready = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub->ModelReady(&context, request, &response).ok());
    return response.ready();
  };
  EXPECT_TRUE(ready());
  EXPECT_TRUE(model_ready("openvino_topk"));
  EXPECT_FALSE(model_ready("nobody"));
  // A call in flight keeps the connection and the server alive.
  grpc::ClientContext context;
  const auto stream = stub->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(SmallInferRequest()));
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  const std::jthread drain = StartDrain(server, std::chrono::seconds(1));
  EXPECT_TRUE(Eventually([&] { return !ready(); }));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
