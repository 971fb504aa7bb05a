// What tests/conformance/cases cannot express: missing parts, long messages and
// untrusted text.
#include <gtest/gtest.h>

#include <string>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "core/engine.h"
#include "tests/support/requests.h"

namespace topk {
namespace {

v1::TopKRequest OnnxRequest() {
  return testing::OnnxRequest(v1::DATA_TYPE_F32, {4}, 1);
}

Status StatusOf(const v1::TopKRequest& request) {
  return Lower(request, Limits()).status();
}

// Every line of a case file has both.
TEST(Lower, NeedsASpecAndATensor) {
  v1::TopKRequest request = OnnxRequest();
  request.clear_spec();
  EXPECT_EQ(StatusOf(request).reason, "SPEC_MISSING");
  EXPECT_EQ(StatusOf(request).field, "spec");
  request = OnnxRequest();
  request.clear_tensor();
  EXPECT_EQ(StatusOf(request).reason, "TENSOR_MISSING");
  EXPECT_EQ(StatusOf(request).field, "tensor");
}

TEST(Lower, TruncatesUntrustedShapesAndTexts) {
  v1::TopKRequest request = OnnxRequest();
  v1::Tensor& k = *request.mutable_onnx()->mutable_k()->mutable_tensor();
  k.set_data_type(v1::DATA_TYPE_I64);
  k.set_data(std::string(8, '\0'));
  for (int i = 0; i < 10000; ++i) k.add_shape(1);
  const std::string message = StatusOf(request).message;
  EXPECT_NE(message.find("[1, 1, "), std::string::npos);
  EXPECT_LT(message.size(), 150u);

  request = testing::OpenVinoRequest(v1::DATA_TYPE_F32, {4}, 1);
  request.mutable_openvino()->set_mode("m\xC3\xA4x\n" + std::string(1000, 'x'));
  const Status status = StatusOf(request);
  EXPECT_EQ(status.field, "openvino.mode");
  EXPECT_LT(status.message.size(), 200u);
  for (const char c : status.message) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(CheckPayload, NamesWhatImpliesTheLength) {
  v1::TopKRequest request = testing::DirectMLRequest(v1::DATA_TYPE_F16, {3}, 1);
  const auto message = [&request] {
    return CheckPayload(*Lower(request, Limits()), 99).message;
  };
  EXPECT_EQ(message(),
            "the tensor has 99 bytes of data; its type (f16) and shape imply 6 "
            "(or 8 with padding)");
  request.mutable_tensor()->add_strides(2);
  EXPECT_EQ(message(),
            "the tensor has 99 bytes of data; its type (f16), shape and "
            "strides imply 10 (or 12 with padding)");
  request.mutable_directml()->set_input_total_tensor_size_bytes(16);
  EXPECT_EQ(
      message(),
      "the tensor has 99 bytes of data; input_total_tensor_size_bytes is 16");
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
  EXPECT_EQ(EscapeControls("\xE2\x82"), "\\xe2\\x82");  // truncated
  // Invalid UTF-8: overlong forms, surrogates, code points above U+10FFFF.
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

}  // namespace
}  // namespace topk
