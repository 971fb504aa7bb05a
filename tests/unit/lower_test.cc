// Cases that tests/conformance/cases cannot express: messages, and missing
// submessages.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/dialects/checks.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

v1::TopKRequest OnnxRequest() {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(1);
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F32);
  request.mutable_tensor()->add_shape(4);
  return request;
}

TEST(Lower, ReportsAMissingSpec) {
  v1::TopKRequest request = OnnxRequest();
  request.clear_spec();
  EXPECT_EQ(Lower(request, Limits()).status().field, "spec");
}

TEST(Lower, ReportsAMissingTensor) {
  v1::TopKRequest request = OnnxRequest();
  request.clear_tensor();
  EXPECT_EQ(Lower(request, Limits()).status().field, "tensor");
}

TEST(Lower, RejectsLongRequestIds) {
  v1::TopKRequest request = OnnxRequest();
  request.set_request_id(std::string(256, 'x'));
  EXPECT_TRUE(Lower(request, Limits()).ok());
  request.set_request_id(std::string(257, 'x'));
  EXPECT_EQ(Lower(request, Limits()).status().field, "request_id");
}

TEST(Lower, NamesTheVersionToUse) {
  v1::TopKRequest request = OnnxRequest();
  for (const auto& [sent, use] :
       {std::pair(13, "ONNX TopK-11"), std::pair(23, "ONNX TopK-11"),
        std::pair(9, "ONNX TopK-1"), std::pair(99, "ONNX TopK-24"),
        std::pair(-1, "ONNX TopK-1")}) {
    request.mutable_spec()->set_version(sent);
    const Status status = Lower(request, Limits()).status();
    EXPECT_NE(status.message.find(use), std::string::npos) << status.message;
  }
}

TEST(Lower, QuotesUntrustedTextSafely) {
  v1::TopKRequest request = OnnxRequest();
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(3);
  request.mutable_openvino()->set_axis(0);
  request.mutable_openvino()->set_mode("m\xC3\xA4x\n" + std::string(1000, 'x'));
  const Status status = Lower(request, Limits()).status();
  EXPECT_EQ(status.field, "openvino.mode");
  EXPECT_LT(status.message.size(), 200u);
  for (const char c : status.message) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(Quote, TruncatesAndReplaces) {
  EXPECT_EQ(Quote("a\"b\xff"), "\"a\"b?\"");
  EXPECT_EQ(Quote(std::string(65, 'x')), "\"" + std::string(64, 'x') + "...\"");
}

TEST(EscapeControls, KeepsTextAndEscapesControlCharacters) {
  EXPECT_EQ(EscapeControls("k = 7 m\xC3\xA4x \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "k = 7 m\xC3\xA4x \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(EscapeControls("\x1b[2J\a\n\r\x7f"),
            "\\x1b[2J\\x07\\x0a\\x0d\\x7f");
  EXPECT_EQ(EscapeControls("\xC2\x9B"
                           "1m"),
            "\\xc2\\x9b1m");  // CSI
  EXPECT_EQ(EscapeControls("\x9B"
                           "1m\xff"),
            "\\x9b1m\\xff");
  EXPECT_EQ(EscapeControls("\xE2\x82"), "\\xe2\\x82");  // cut
  // Not UTF-8: long forms, surrogates, numbers above U+10FFFF.
  for (const std::string text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(EscapeControls(text).size(), 4 * text.size()) << text;
  }
  for (const std::string text : {"\xE0\xA0\x80", "\xED\x9F\xBF",
                                 "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(EscapeControls(text), text);
  }
  EXPECT_EQ(EscapeControls("\u202e\u2066\u200f"),
            "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8f");
  EXPECT_EQ(EscapeControls("\u2014\u2030"), "\u2014\u2030");
  EXPECT_EQ(EscapeControls(std::string(1, '\0')), "\\x00");
}

TEST(Dialects, VersionsAscend) {
  ASSERT_EQ(Dialects().size(), 3u);
  for (const Dialect* dialect : Dialects()) {
    int last = -1;
    for (const OperatorVersion& version : dialect->versions) {
      EXPECT_GT(version.version, last);
      last = version.version;
      EXPECT_FALSE(version.data_types.empty());
      EXPECT_FALSE(version.index_types.empty());
    }
  }
}

}  // namespace
}  // namespace topk
