// W3C Trace Context: valid and invalid headers.
#include "server/telemetry/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace topk {
namespace {

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
