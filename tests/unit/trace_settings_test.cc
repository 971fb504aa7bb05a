// W3C Trace Context and OpenTelemetry's environment variables, valid and
// invalid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "server/config/otel_variables.h"
#include "server/telemetry/trace_context.h"

namespace topk {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr char kEndpoint[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr char kResource[] = "OTEL_RESOURCE_ATTRIBUTES";
constexpr char kSampler[] = "OTEL_TRACES_SAMPLER";
constexpr char kRatio[] = "OTEL_TRACES_SAMPLER_ARG";

TraceConfig Read(const std::map<std::string, std::string>& variables,
                 const std::string& flag = "") {
  return ReadTraceConfig(flag, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

std::string Checked(std::string url) {
  const std::string fault = CheckCollector(url);
  return fault.empty() ? url : fault;
}

TEST(OtelVariables, CollectorsAreUrlsOfHttpOrHttps) {
  EXPECT_EQ(Checked("http://a:1"), "http://a:1");
  EXPECT_EQ(Checked("https://a.b-c_d/"), "https://a.b-c_d:4317");
  EXPECT_EQ(Checked("http://127.0.0.1"), "http://127.0.0.1:4317");
  EXPECT_EQ(Checked("http://[::1]:65535"), "http://[::1]:65535");
  EXPECT_EQ(Checked("http://[::1]"), "http://[::1]:4317");
  EXPECT_EQ(Checked("HTTP://A:1"), "http://A:1");
  std::istringstream list(
      " a a:1 http: http:/ http:// http://:1 http://a: http://a:0 "
      "http://a:65536 http://a:x http://a:-1 http://a:1:2 http://a\n "
      "http://u:p@a:1 http://a:1/v1/traces http://a?x http://a%41 http://[::1 "
      "http://[::1]x http://[::1]x:1 http:///a "
      "grpc://a:1 unix:/a dns:///a:1 http://http://a http://a:1//");
  for (std::string wrong; std::getline(list, wrong, ' ');) {
    EXPECT_THAT(Checked(wrong), HasSubstr(" is not http://host:port")) << wrong;
  }
}

TEST(OtelVariables, NothingIsReadWithoutAnEndpoint) {
  const TraceConfig config = Read({{kSampler, "nonsense"}});
  EXPECT_EQ(config.endpoint, "");
  EXPECT_THAT(config.warnings, IsEmpty());
}

TEST(OtelVariables, TheFlagPrecedesTheVariableOfTracesAndThatOfAll) {
  const char* const of_traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  EXPECT_EQ(Read({{kEndpoint, "http://a"}}).endpoint, "http://a:4317");
  EXPECT_EQ(Read({{kEndpoint, "http://a"}, {of_traces, "http://b"}}).endpoint,
            "http://b:4317");
  EXPECT_EQ(
      Read({{kEndpoint, "http://a"}, {of_traces, "http://b"}}, "http://c:1")
          .endpoint,
      "http://c:1");
  const TraceConfig config = Read({{kEndpoint, "http://a"}, {of_traces, "b"}});
  EXPECT_EQ(config.endpoint, "http://a:4317") << "the other is ignored";
  EXPECT_THAT(config.warnings,
              ElementsAre(HasSubstr("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=\"b\" "
                                    "is ignored")));
}

TEST(OtelVariables, SamplersHaveTheNamesOfTheSpecification) {
  const auto read = [](const std::string& name, const std::string& ratio = "") {
    const TraceConfig config =
        Read({{kSampler, name}, {kRatio, ratio}}, "http://a:1");
    EXPECT_THAT(config.warnings, IsEmpty()) << name;
    return std::pair(config.follow_parent, config.ratio);
  };
  EXPECT_EQ(read(""), std::pair(true, 1.0));
  EXPECT_EQ(read("always_on"), std::pair(false, 1.0));
  EXPECT_EQ(read("always_off"), std::pair(false, 0.0));
  EXPECT_EQ(read("traceidratio", "0.25"), std::pair(false, 0.25));
  EXPECT_EQ(read("traceidratio"), std::pair(false, 1.0));
  EXPECT_EQ(read("parentbased_always_on", "0.5"), std::pair(true, 1.0));
  EXPECT_EQ(read("parentbased_always_off"), std::pair(true, 0.0));
  EXPECT_EQ(read("parentbased_traceidratio", "1e-3"), std::pair(true, 1e-3));
}

TEST(OtelVariables, InvalidSamplersAreIgnoredWithAWarning) {
  for (const char* name : {"jaeger_remote", "ALWAYS_ON", "parentbased_", " ",
                           "parentbased_parentbased_always_on"}) {
    const TraceConfig config = Read({{kSampler, name}}, "http://a:1");
    EXPECT_EQ(config.ratio, 1) << name;
    EXPECT_TRUE(config.follow_parent) << name;
    EXPECT_THAT(config.warnings, ElementsAre(HasSubstr(kSampler))) << name;
  }
  for (const char* ratio :
       {"-0.1", "1.1", "nan", "inf", "1/2", "half", "1e999", " 1", "0x1"}) {
    const TraceConfig config =
        Read({{kSampler, "traceidratio"}, {kRatio, ratio}}, "http://a:1");
    EXPECT_EQ(config.ratio, 1) << ratio;
    EXPECT_THAT(config.warnings, ElementsAre(HasSubstr(kRatio))) << ratio;
  }
}

TEST(OtelVariables, ResourceAttributesArePercentDecodedAndOverridden) {
  const auto resource =
      Read(
          {{kResource, " a = b%2c%3D ,, service.version=7,service.name=x,%41="},
           {"OTEL_SERVICE_NAME", "mine"}},
          "http://a:1")
          .resource;
  EXPECT_THAT(resource, Contains(Pair("a", "b,=")));
  EXPECT_THAT(resource, Contains(Pair("A", "")));
  EXPECT_THAT(resource, Contains(Pair("service.version", "7")));
  EXPECT_THAT(resource, Contains(Pair("service.name", "mine")));
  EXPECT_THAT(resource, Not(Contains(Pair("service.name", "x"))));
  EXPECT_THAT(Read({}, "http://a:1").resource,
              Contains(Pair("service.name", "topkd")));
  EXPECT_THAT(Read({{kResource, "a=%ff%00"}}, "http://a:1").resource,
              Contains(Pair("a", "\\xff\\x00")))
      << "a message's texts are UTF-8";
}

TEST(OtelVariables, InvalidResourceAttributesAreIgnoredAsAWhole) {
  for (const std::string& wrong :
       {std::string("b"), std::string("b=c,d"), std::string("=c"),
        std::string("b=%4"), std::string("b=%zz"), std::string("b=c%"),
        std::string("b=%+1")}) {
    const TraceConfig config = Read({{kResource, wrong}}, "http://a:1");
    EXPECT_EQ(config.resource.size(), 3) << wrong.substr(0, 20);
    ASSERT_THAT(config.warnings, ElementsAre(HasSubstr(kResource)));
    EXPECT_LT(config.warnings.front().size(), 300);
  }
}

const std::string kParent =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string Replaced(size_t at, const std::string& with) {
  std::string text = kParent;
  return text.replace(at, with.size(), with);
}

TEST(TraceParent, ReadsTheExamplesOfTheSpecification) {
  const auto read = ParseTraceParent(kParent);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(read->trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(read->parent, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(read->sampled);
  EXPECT_FALSE(ParseTraceParent(Replaced(53, "00"))->sampled);
  // Version 00 ignores unknown flags.
  EXPECT_TRUE(ParseTraceParent(Replaced(53, "ff"))->sampled);
  EXPECT_FALSE(ParseTraceParent(Replaced(53, "fe"))->sampled);
}

TEST(TraceParent, RejectsZerosAndTheInvalidVersion) {
  EXPECT_FALSE(ParseTraceParent(Replaced(0, "ff")).has_value());
  EXPECT_FALSE(ParseTraceParent(Replaced(3, std::string(32, '0'))).has_value());
  EXPECT_FALSE(
      ParseTraceParent(Replaced(36, std::string(16, '0'))).has_value());
  // Half of a trace ID may be zero.
  EXPECT_TRUE(ParseTraceParent(Replaced(3, std::string(16, '0'))).has_value());
  EXPECT_TRUE(ParseTraceParent(Replaced(19, std::string(16, '0'))).has_value());
}

TEST(TraceParent, AcceptsExactlyTheGrammar) {
  for (size_t i = 0; i < kParent.size(); ++i) {
    EXPECT_FALSE(ParseTraceParent(kParent.substr(0, i)).has_value()) << i;
    for (const char* wrong : {"g", "F", " ", kParent[i] == '-' ? "0" : "-"}) {
      EXPECT_FALSE(ParseTraceParent(Replaced(i, wrong)).has_value())
          << Replaced(i, wrong);
    }
  }
  // Only later versions may have more fields.
  const std::string later = Replaced(0, "1f");
  EXPECT_TRUE(ParseTraceParent(later).has_value());
  EXPECT_TRUE(ParseTraceParent(later + "-x").has_value());
  EXPECT_FALSE(ParseTraceParent(later + "x").has_value());
  EXPECT_FALSE(ParseTraceParent(kParent + "-x").has_value());
}

TEST(TraceContext, DropsALongTraceStateOrOneThatIsNotPrintableAscii) {
  EXPECT_EQ(ContinueTrace(kParent, std::string(512, 'a')).state.size(), 512u);
  EXPECT_EQ(ContinueTrace(kParent, std::string(513, 'a')).state, "");
  for (const std::string text :
       {"a=\xff", "\xed\xa0\x80", "a=\xc3\xa4", "a=\n", "\x7f", "a=b,\x01"}) {
    EXPECT_EQ(ContinueTrace(kParent, text).state, "");
  }
  EXPECT_EQ(ContinueTrace(kParent, "a=b,\t c=~").state, "a=b,\t c=~");
}

TEST(TraceContext, StartsATraceWithoutAParent) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const TraceContext trace = ContinueTrace("00-none", "rojo=1");
    EXPECT_EQ(trace.parent, 0u);
    EXPECT_EQ(trace.state, "") << "it belongs to the parent that is not valid";
    EXPECT_FALSE(trace.sampled);
    EXPECT_TRUE(ParseTraceParent(ToTraceParent(trace)).has_value());
    seen.insert(TraceId(trace));
    seen.insert(SpanId(trace.span));
  }
  EXPECT_EQ(seen.size(), 2000u);
}

}  // namespace
}  // namespace topk
