// The requests of the protocol's tools other than inference.
#include <string>
#include <thread>

#include "tests/integration/exposition.h"
#include "tests/integration/oip.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(Oip, StatisticsCountEachRequestOnce) {
  for (int i = 0; i < 5; ++i) Infer(Usual());
  ModelInferRequest wrong = Usual();
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

TEST_F(Oip, DescribesModelsToTools) {
  const auto call = [this]<class Request, class Response>(
                        const Request& request, Response response,
                        grpc::Status (GRPCInferenceService::Stub::*method)(
                            grpc::ClientContext*, const Request&, Response*)) {
    grpc::ClientContext context;
    const grpc::Status status = ((*oip_).*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  using Stub = GRPCInferenceService::Stub;
  inference::ModelMetadataRequest which;
  which.set_name("directml_topk");
  const auto metadata =
      call(which, inference::ModelMetadataResponse(), &Stub::ModelMetadata);
  EXPECT_EQ(metadata.versions_size(), 2);
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_EQ(metadata.inputs(0).name(), "X");
  ASSERT_EQ(metadata.outputs_size(), 2);
  EXPECT_EQ(metadata.outputs(1).datatype(), "UINT32");
  EXPECT_EQ(metadata.properties().at("datatypes"),
            "FP32 FP16 INT32 INT16 INT8 UINT32 UINT16 UINT8 INT64 UINT64");
  which.set_name("openvino_topk");  // whose others the protocol cannot name
  EXPECT_EQ(
      call(which, inference::ModelMetadataResponse(), &Stub::ModelMetadata)
          .properties()
          .at("datatypes"),
      "FP16 BF16 FP32 FP64 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 "
      "UINT64");
  inference::ModelConfigRequest config;
  config.set_name("onnx_topk");
  EXPECT_EQ(call(config, inference::ModelConfigResponse(), &Stub::ModelConfig)
                .config()
                .output(1)
                .data_type(),
            inference::TYPE_INT64);
  const auto index =
      call(inference::RepositoryIndexRequest(),
           inference::RepositoryIndexResponse(), &Stub::RepositoryIndex);
  EXPECT_EQ(index.models_size(), 9);
  EXPECT_EQ(index.models(0).state(), "READY");
  const auto server =
      call(inference::ServerMetadataRequest(),
           inference::ServerMetadataResponse(), &Stub::ServerMetadata);
  EXPECT_EQ(server.name(), "topkd");
  EXPECT_EQ(server.extensions(3), "system_shared_memory");
  EXPECT_TRUE(call(inference::ServerLiveRequest(),
                   inference::ServerLiveResponse(), &Stub::ServerLive)
                  .live());
  call(inference::CudaSharedMemoryUnregisterRequest(),
       inference::CudaSharedMemoryUnregisterResponse(),
       &Stub::CudaSharedMemoryUnregister);
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
  ASSERT_TRUE(stream->Write(Usual()));
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  std::thread drain([&] {
    server.server().Drain(std::chrono::seconds(1), std::chrono::minutes(1));
  });
  EXPECT_TRUE(Eventually([&] { return !ready(); }));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  drain.join();
}

TEST(OipMetrics, CountRequestsByOperatorAndCallsByMethod) {
  TestServer server({.metrics_listen = "127.0.0.1:0", .log_level = "info"});
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const auto ask = [&](const ModelInferRequest& request) {
    grpc::ClientContext context;
    ModelInferResponse answer;
    return stub->ModelInfer(&context, request, &answer).error_code();
  };
  const auto series = [&] { return ScrapedText(server); };
  const auto lines = [&] { return std::ranges::count(series(), '\n'); };
  EXPECT_EQ(ask(Usual()), grpc::StatusCode::OK);
  const auto before = lines();
  for (int i = 0; i < 20; ++i) {
    ModelInferRequest request = Usual();
    request.set_model_name(StrCat("model-", i));
    EXPECT_EQ(ask(request), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(lines(), before);  // whatever clients send
  const std::string text = series();
  EXPECT_THAT(text,
              HasSubstr("topk_requests_total{code=\"OK\",dialect=\"onnx\","
                        "version=\"11\"} 1"));
  EXPECT_THAT(text, HasSubstr("topk_requests_total{code=\"NOT_FOUND\",dialect="
                              "\"unknown\",version=\"unknown\"} 20"));
  EXPECT_THAT(text,
              HasSubstr("grpc_server_handled_total{grpc_code=\"NotFound\",grpc_"
                        "method=\"ModelInfer\",grpc_service=\"inference."
                        "GRPCInferenceService\",grpc_type=\"unary\"} 20"));
  EXPECT_TRUE(Eventually([&] {
    return server.Log().find("\"method\":\"ModelInfer\"") != std::string::npos;
  }));
}

}  // namespace
}  // namespace topk::testing
