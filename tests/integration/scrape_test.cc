// Scrapes are valid while requests are running.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "server/telemetry/logging.h"
#include "tests/integration/ask.h"
#include "tests/integration/exposition.h"
#include "tests/integration/raw_call.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

double StageCount(const Exposition& exposition, const std::string& stage) {
  return exposition.samples.at("topk_stage_seconds_count{stage=\"" + stage +
                               "\"}");
}

TEST(Scrape, IsValidAndMonotonicUnderLoad) {
  TestServer server(WithMetrics());
  std::atomic<bool> stop = false;
  std::atomic<int> asked = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&, i] {
      const auto stub = server.Stub();
      while (!stop) {
        Ask(*stub, OnnxRequest({1, 2, 3}, i + 2));
        ++asked;
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return asked > 20; }));
  Exposition before = Scrape(server);
  const double first = StageCount(before, "queue");
  for (int i = 0; i < 30; ++i) {
    Exposition after = Scrape(server);
    EXPECT_EQ(CheckMonotonic(before, after), "");
    before = std::move(after);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  const Exposition last = Scrape(server);
  EXPECT_GT(StageCount(before, "queue"), first) << "there was no load";
  // The third caller's k exceeds 3, so none of its requests is computed.
  EXPECT_EQ(StageCount(last, "queue"), asked);
  EXPECT_EQ(StageCount(last, "decode"), asked);
  EXPECT_LT(StageCount(last, "compute"), asked);
  EXPECT_EQ(StageCount(last, "compute"), StageCount(last, "encode"));
}

TEST(Scrape, CountsBackendsAndKernels) {
  TestServer server(WithMetrics());
  const CallResult asked = Ask(server, OnnxRequest({1, 2, 3}, 2));
  ASSERT_TRUE(asked.status.ok());
  const Exposition exposition = Scrape(server);
  const auto& samples = exposition.samples;
  EXPECT_EQ(samples.at("topk_answers_total{backend=\"cpu\",kernel=\"" +
                       asked.response.execution().kernel() + "\"}"),
            1);
  EXPECT_EQ(samples.at("topk_elements_sum{}"), 3);
  EXPECT_EQ(samples.at("topk_queue_depth{}"), 0);
  EXPECT_EQ(samples.at("topk_log_dropped_total{}"), DroppedLines());
  EXPECT_GT(samples.at("process_resident_memory_bytes{}"), 1 << 20);
  EXPECT_GT(samples.at("process_virtual_memory_bytes{}"), 1 << 20);
  EXPECT_GE(samples.at("process_cpu_seconds_total{}"), 0);
  EXPECT_GT(samples.at("process_threads{}"), 1);
  EXPECT_GT(samples.at("process_open_fds{}"), 3);
  EXPECT_GT(samples.at("process_max_fds{}"), samples.at("process_open_fds{}"));
  EXPECT_NEAR(samples.at("process_start_time_seconds{}"),
              static_cast<double>(time(nullptr)), 600);
}

TEST(Scrape, HasTheStagesOfStreamsAndOfManyRequests) {
  TestServer server(WithMetrics());
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  v1::TopKRequestChunk data;
  data.set_data(request.tensor().data());
  RawCall(server.Connect(), "/topk.v1.TopKService/StreamTopK",
          {HeaderOf(request).SerializeAsString(), data.SerializeAsString()});
  RawCall(server.Connect(), "/topk.v1.TopKService/ComputeTopKMany",
          {request.SerializeAsString(), request.SerializeAsString()});
  const Exposition exposition = Scrape(server);
  for (const char* stage : {"queue", "decode", "compute", "encode"}) {
    EXPECT_EQ(StageCount(exposition, stage), 3) << stage;
  }
}

TEST(Scrape, CountsCancelledRequests) {
  // With a single poller, the message is handled before the cancellation.
  TestServer server({.metrics_listen = "127.0.0.1:0", .pollers = 1});
  const auto stub = server.Stub();
  grpc::ClientContext context;
  const auto stream = stub->StreamTopK(&context);
  ASSERT_TRUE(stream->Write(HeaderOf(OnnxRequest({1, 2, 3}, 1))));
  EXPECT_TRUE(Eventually([&] {
    return Scrape(server).samples.at(
               "grpc_server_msg_received_total{grpc_method=\"StreamTopK\","
               "grpc_service=\"topk.v1.TopKService\",grpc_type=\"bidi_stream\""
               "}") == 1;
  }));
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] {
    return Scrape(server).samples.at(
               "topk_cancelled_total{when=\"during_compute\"}") == 1;
  }));
  // The cancellation is not mistaken for the end of the stream.
  EXPECT_TRUE(Eventually(
      [&] { return server.Log().find("\"CANCELLED\"") != std::string::npos; }));
  EXPECT_EQ(server.Log().find("INVALID_ARGUMENT"), std::string::npos);
}

TEST(Scrape, CountsRejectionsForLackOfMemory) {
  TestServer server({.metrics_listen = "127.0.0.1:0",
                     .max_inflight_calls = 1,
                     .max_client_inflight_calls = 2});
  ManyCall stream(server);
  stream.Ask(OnnxRequest({1, 2, 3}, 1));
  EXPECT_EQ(Scrape(server).samples.at("topk_inflight_calls{}"), 1);
  EXPECT_FALSE(Ask(server, OnnxRequest({1, 2, 3}, 1)).status.ok());
  EXPECT_EQ(Scrape(server).samples.at(
                "topk_rejected_total{reason=\"inflight_calls\"}"),
            1);
  const auto line = nlohmann::json::parse(server.Log());
  EXPECT_EQ(line["reason"], "TOO_MANY_CALLS");
  EXPECT_LT(line["total_us"], 20000000) << "since the call's arrival";
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    const auto now = Scrape(server).samples;
    return now.at("topk_inflight_calls{}") == 0 &&
           now.at("topk_inflight_bytes{}") == 0;
  }));
}

TEST(Scrape, CountsRejectionsByALimit) {
  TestServer server({.metrics_listen = "127.0.0.1:0", .max_elements = 2});
  EXPECT_FALSE(Ask(server, OnnxRequest({1, 2, 3}, 2)).status.ok());
  EXPECT_EQ(Scrape(server).samples.at("topk_rejected_total{reason=\"limit\"}"),
            1);
}

TEST(Scrape, HasNoSeriesFromClients) {
  TestServer server(WithMetrics());
  const auto stub = server.Stub();
  const auto ask = [&](const v1::TopKRequest& request, const char* trace) {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", trace);
    v1::TopKResponse response;
    (void)stub->ComputeTopK(&context, request, &response);
  };
  ask(OnnxRequest({1, 2, 3}, 1), "none");  // creates the series of its kernel
  const size_t before = Scrape(server).samples.size();
  const auto channel = server.Connect();
  for (int i = 0; i < 50; ++i) {
    const std::string number = std::to_string(i);
    RawCall(channel, "/made.up/Method" + number, {""});
    RawCall(channel, "/topk.v1.TopKService/Made" + number, {""});
    v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
    request.set_request_id("made-up-" + number);
    ask(request, ("00-made-up" + number).c_str());
    request.mutable_spec()->set_version(100 + i);
    ask(request, "");
    request.mutable_spec()->set_dialect(static_cast<v1::Dialect>(i));
    request.mutable_tensor()->set_data_type(static_cast<v1::DataType>(i));
    ask(request, "");
  }
  EXPECT_EQ(Scrape(server).samples.size(), before);
}

}  // namespace
}  // namespace topk::testing
