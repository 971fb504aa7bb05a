// Exemplars: the traces that the buckets of histograms link to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <string>

#include "core/base/text.h"
#include "tests/integration/ask.h"
#include "tests/integration/collector.h"
#include "tests/integration/exposition.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kParentOfAll[] = "00f067aa0ba902b7";

ServerConfig ExporterTo(const TraceConfig& traces) {
  return {.metrics_listen = "127.0.0.1:0", .traces = traces};
}

// Calls ComputeTopK with a traceparent whose flags are 01 or 00. Returns the
// span of the response's.
std::string CallWith(TestServer& server, const std::string& trace,
                     const char* flags = "01") {
  grpc::ClientContext context;
  context.AddMetadata("traceparent",
                      StrCat("00-", trace, "-", kParentOfAll, "-", flags));
  v1::TopKResponse response;
  EXPECT_TRUE(server.Stub()
                  ->ComputeTopK(&context, OnnxRequest({1, 2, 3}, 2), &response)
                  .ok());
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find("traceparent");
  if (found == metadata.end()) return "";
  return std::string(found->second.data(), found->second.size()).substr(36, 16);
}

// Returns the lines of a scrape that have an exemplar and a text.
std::vector<std::string> Exemplified(TestServer& server,
                                     const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(ScrapedOpenMetrics(server));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" # {") == std::string::npos) continue;
    EXPECT_THAT(line.substr(0, line.find('{')), ::testing::EndsWith("_bucket"));
    if (line.find(text) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::string TraceOf(char digit) { return std::string(32, digit); }

TEST(Exemplars, NameTheCallsInTheBucketsOfTheirLatencies) {
  Collector collector;
  TestServer server(ExporterTo(collector.Config()));
  EXPECT_THAT(Exemplified(server, ""), IsEmpty());
  const std::string span = CallWith(server, TraceOf('a'));
  const std::string exemplar =
      StrCat(" # {trace_id=\"", TraceOf('a'), "\",span_id=\"", span, "\"} ");
  for (const char* series :
       {"grpc_server_handling_seconds_bucket{grpc_method=\"ComputeTopK\"",
        "topk_stage_seconds_bucket{stage=\"queue\"",
        "topk_stage_seconds_bucket{stage=\"decode\"",
        "topk_stage_seconds_bucket{stage=\"compute\"",
        "topk_stage_seconds_bucket{stage=\"encode\"",
        "topk_request_seconds_bucket{method=\"ComputeTopK\"",
        "topk_compute_seconds_bucket{dialect=\"onnx\",version=\"11\""}) {
    const auto lines = Exemplified(server, series);
    ASSERT_THAT(lines, SizeIs(1)) << series;
    EXPECT_THAT(lines[0], HasSubstr(exemplar));
  }
  EXPECT_THAT(Exemplified(server, ""), SizeIs(7));
  EXPECT_THAT(ScrapedText(server), Not(HasSubstr(TraceOf('a'))));
}

TEST(Exemplars, AreNotLeftByUnsampledCalls) {
  Collector collector;
  TestServer server(ExporterTo(collector.Config()));
  CallWith(server, TraceOf('a'), "00");
  EXPECT_THAT(Exemplified(server, ""), IsEmpty());
  CallWith(server, TraceOf('b'));
  CallWith(server, TraceOf('c'), "00");
  EXPECT_THAT(Exemplified(server, ""), Not(IsEmpty()));
  EXPECT_THAT(Exemplified(server, TraceOf('c')), IsEmpty());
}

TEST(Exemplars, NeedACollector) {
  TestServer server(WithMetrics());
  CallWith(server, TraceOf('a'));
  EXPECT_THAT(Exemplified(server, ""), IsEmpty());
}

TEST(Exemplars, AreNotLeftWhileSpansAreLost) {
  std::atomic<bool> accepts = false;
  Collector collector([&](Collector&, auto&) {
    if (accepts) return grpc::Status();
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no");
  });
  TestServer server(ExporterTo(collector.Config()));
  CallWith(server, TraceOf('a'));
  EXPECT_TRUE(Eventually([&] {
    return ScrapedText(server).find(
               "topk_spans_dropped_total{reason=\"export_failed\"} 5\n") !=
           std::string::npos;
  }));
  CallWith(server, TraceOf('b'));
  EXPECT_THAT(Exemplified(server, TraceOf('b')), IsEmpty());
  accepts = true;
  EXPECT_TRUE(Eventually([&] {
    CallWith(server, TraceOf('c'));
    return !Exemplified(server, TraceOf('c')).empty();
  }));
}

TEST(Exemplars, AreLeftByTheRequestsOfAStreamAndByFailures) {
  Collector collector;
  TestServer server(ExporterTo(collector.Config()));
  ManyCall stream(server);
  stream.Ask(OnnxRequest({1, 2, 3}, 4));  // k is too large
  EXPECT_THAT(
      Exemplified(server,
                  "topk_request_seconds_bucket{method=\"ComputeTopKMany"),
      SizeIs(1))
      << "while the stream is open";
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    return Exemplified(server,
                       "handling_seconds_bucket{grpc_method=\"ComputeTopKMany")
               .size() == 1;
  }));
  EXPECT_THAT(Exemplified(server, "topk_compute_seconds"), IsEmpty());
}

}  // namespace
}  // namespace topk::testing
