// Metrics, scraped over HTTP.
#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/integration/ask.h"
#include "tests/integration/exposition.h"
#include "tests/integration/raw_call.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Returns a grpc_server_* sample with the labels in the exposed order.
std::string Grpc(const std::string& family, const std::string& code,
                 const std::string& service, const std::string& method,
                 const std::string& type, int value) {
  return "\ngrpc_server_" + family + "{" +
         (code.empty() ? "" : "grpc_code=\"" + code + "\",") +
         "grpc_method=\"" + method + "\",grpc_service=\"" + service +
         "\",grpc_type=\"" + type + "\"} " + std::to_string(value) + "\n";
}

TEST(Metrics, CountTheCallsOfEveryService) {
  TestServer server(WithMetrics());
  for (int i = 0; i < 3; ++i) Ask(server, OnnxRequest({1, 2, 3}, 1));
  Ask(server, OnnxRequest({1, 2, 3}, 4));
  const auto health = grpc::health::v1::Health::NewStub(server.Connect());
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(health->Check(&context, {}, &response).ok());

  const std::string text = ScrapedText(server);
  const char service[] = "topk.v1.TopKService";
  for (const std::string& sample : {
           Grpc("started_total", "", service, "ComputeTopK", "unary", 4),
           Grpc("handled_total", "OK", service, "ComputeTopK", "unary", 3),
           Grpc("handled_total", "InvalidArgument", service, "ComputeTopK",
                "unary", 1),
           Grpc("handled_total", "Internal", service, "ComputeTopK", "unary",
                0),
           Grpc("msg_received_total", "", service, "ComputeTopK", "unary", 4),
           Grpc("msg_sent_total", "", service, "ComputeTopK", "unary", 3),
           Grpc("handling_seconds_count", "", service, "ComputeTopK", "unary",
                4),
           Grpc("handled_total", "OK", "grpc.health.v1.Health", "Check",
                "unary", 1),
       }) {
    EXPECT_THAT(text, HasSubstr(sample));
  }
}

TEST(Metrics, CountOnlyADrainAsDraining) {
  Metrics metrics;
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  const auto record = [&](const char* reason) {
    metrics.Record("ComputeTopK", request, {},
                   Status{Code::kUnavailable, reason, "", ""});
  };
  record("SHUTTING_DOWN");
  record("DEVICE_LOST");
  record("DEVICE_LOST");
  const std::string text =
      prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
  EXPECT_THAT(text, HasSubstr("topk_rejected_total{reason=\"draining\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("topk_requests_total{code=\"UNAVAILABLE\","
                              "dialect=\"onnx\",version=\"11\"} 3\n"));
}

TEST(Metrics, AreBoundedForAnyKernelName) {
  Metrics metrics;
  RequestStats stats;
  stats.backend = "cpu";
  for (int i = 0; i < 1000; ++i) {
    for (const std::string& kernel :
         {"made-up-" + std::to_string(i), std::string("scan")}) {
      stats.kernel = kernel;
      metrics.Record("ComputeTopK", OnnxRequest({1, 2, 3}, 1), stats, {});
    }
  }
  const std::string text =
      prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
  size_t series = 0;
  for (size_t at = 0;
       (at = text.find("\ntopk_answers_total{", at)) != std::string::npos;
       ++at) {
    ++series;
  }
  EXPECT_EQ(series, Metrics::kMaxKernels + 1);
  EXPECT_THAT(
      text,
      HasSubstr("topk_answers_total{backend=\"cpu\",kernel=\"scan\"} 1000\n"));
  EXPECT_THAT(
      text,
      HasSubstr("topk_answers_total{backend=\"other\",kernel=\"other\"} " +
                std::to_string(1001 - Metrics::kMaxKernels) + "\n"));
}

TEST(Metrics, CountTheMessagesOfStreams) {
  TestServer server(WithMetrics());
  v1::TopKRequestChunk data;
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  data.set_data(request.tensor().data());
  RawCall(server.Connect(), "/topk.v1.TopKService/StreamTopK",
          {HeaderOf(request).SerializeAsString(), data.SerializeAsString()});
  RawCall(server.Connect(), "/topk.v1.TopKService/ComputeTopKMany",
          {request.SerializeAsString(), request.SerializeAsString(), ""});
  const char service[] = "topk.v1.TopKService";
  // A stream is counted shortly after its status is sent.
  EXPECT_TRUE(Eventually([&] {
    return ScrapedText(server).find(Grpc("handled_total", "OK", service,
                                         "ComputeTopKMany", "bidi_stream",
                                         1)) != std::string::npos;
  }));
  const std::string text = ScrapedText(server);
  for (const std::string& sample :
       {Grpc("msg_received_total", "", service, "StreamTopK", "bidi_stream", 2),
        Grpc("msg_sent_total", "", service, "StreamTopK", "bidi_stream", 1),
        Grpc("msg_received_total", "", service, "ComputeTopKMany",
             "bidi_stream", 3),
        Grpc("msg_sent_total", "", service, "ComputeTopKMany", "bidi_stream",
             3)}) {
    EXPECT_THAT(text, HasSubstr(sample));
  }
  EXPECT_THAT(text, HasSubstr("topk_requests_total{code=\"OK\",dialect="
                              "\"onnx\",version=\"11\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("topk_requests_total{code=\"INVALID_ARGUMENT\","
                              "dialect=\"unknown\",version=\"unknown\"} 1\n"));
}

TEST(Metrics, CountStreamsByTheStatusThatTheClientReceived) {
  TestServer server(WithMetrics());
  const char service[] = "topk.v1.TopKService";
  const auto counted = [&](const char* code, int calls) {
    return ScrapedText(server).find(Grpc("handled_total", code, service,
                                         "ComputeTopKMany", "bidi_stream",
                                         calls)) != std::string::npos;
  };
  ManyCall cancelled(server);
  cancelled.Ask(OnnxRequest({1, 2, 3}, 1));
  cancelled.context().TryCancel();
  EXPECT_EQ(cancelled->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return counted("Canceled", 1); }));
  EXPECT_FALSE(ScrapedText(server).find(Grpc("handled_total", "OK", service,
                                             "ComputeTopKMany", "bidi_stream",
                                             0)) == std::string::npos)
      << "the call is not OK";
}

TEST(Metrics, HaveTheTimeOfEachRequestOfAStream) {
  TestServer server(WithMetrics());
  ManyCall stream(server);
  for (int i = 0; i < 3; ++i) stream.Ask(OnnxRequest({1, 2, 3}, 1));
  // While the stream is open.
  EXPECT_TRUE(Eventually([&] {
    return ScrapedText(server).find(
               "\ntopk_request_seconds_count{method=\"ComputeTopKMany\"} "
               "3\n") != std::string::npos;
  }));
  EXPECT_THAT(
      ScrapedText(server),
      HasSubstr("\ntopk_request_seconds_count{method=\"ComputeTopK\"} 0\n"));
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(Metrics, HaveTheFamiliesOfTheService) {
  TestServer server(WithMetrics());
  Ask(server, OnnxRequest({1, 2, 3}, 2));
  const std::string text = ScrapedText(server);
  EXPECT_THAT(text, HasSubstr("topk_compute_seconds_count{dialect=\"onnx\","
                              "version=\"11\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ntopk_tensor_bytes_sum 12\n"));
  EXPECT_THAT(text, HasSubstr("\ntopk_k_elements_sum 2\n"));
  EXPECT_THAT(text, HasSubstr("\ntopk_build_info{compiler=\""));
  EXPECT_THAT(text, HasSubstr("\ntopk_ready 1\n"));
  EXPECT_THAT(text, HasSubstr("\ntopk_max_inflight_calls 4096\n"));
  EXPECT_THAT(text, ContainsRegex("\ntopk_max_inflight_bytes [1-9]"));
  for (const char* label :
       {"grpc_version=\"", "instruction_set=\"", "version=\""}) {
    EXPECT_THAT(text, ContainsRegex(std::string("topk_build_info.*") + label));
  }
  server.server().Drain({}, std::chrono::milliseconds(0));
  EXPECT_THAT(ScrapedText(server), HasSubstr("\ntopk_ready 0\n"));
}

}  // namespace
}  // namespace topk::testing
