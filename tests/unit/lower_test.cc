// Cases that tests/conformance/cases cannot express: messages, and missing
// submessages.
#include <gtest/gtest.h>

#include "core/answer.h"
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
        std::pair(0, "ONNX TopK-24"), std::pair(-1, "ONNX TopK-24")}) {
    request.mutable_spec()->set_version(sent);
    const Status status = Lower(request, Limits()).status();
    EXPECT_NE(status.message.find(use), std::string::npos) << status.message;
  }
}

v1::TopKRequest DirectMLRequest() {
  v1::TopKRequest request = OnnxRequest();
  request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  request.mutable_spec()->set_version(1);
  request.mutable_directml()->set_axis(0);
  request.mutable_directml()->set_k(1);
  request.mutable_directml()->set_axis_direction(v1::AXIS_DIRECTION_DECREASING);
  return request;
}

std::string MessageOf(const v1::TopKRequest& request) {
  return Lower(request, Limits()).status().message;
}

TEST(Lower, NamesTheVersionThatAllowsADataType) {
  v1::TopKRequest request = OnnxRequest();
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_BF16);
  EXPECT_EQ(MessageOf(request),
            "data type bf16 is not allowed; ONNX TopK-11 allows f16, f32, f64, "
            "i8, i16, i32, i64, u8, u16, u32, u64; use 24 (ONNX TopK-24)");
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U4);
  EXPECT_EQ(MessageOf(request).find("use 24"), std::string::npos);
}

TEST(Lower, NamesTheOtherDialect) {
  v1::TopKRequest request = OnnxRequest();
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  EXPECT_EQ(MessageOf(request),
            "spec.dialect is OpenVINO, but the attributes are ONNX's; set the "
            "field openvino");
}

TEST(Lower, NamesTheFeatureLevelThatWasSent) {
  v1::TopKRequest request = DirectMLRequest();
  for (int i = 0; i < 4; ++i) request.mutable_tensor()->add_shape(1);
  request.mutable_directml()->set_feature_level(v1::FEATURE_LEVEL_3_0);
  EXPECT_EQ(MessageOf(request),
            "the tensor has 5 dimensions; FEATURE_LEVEL_3_0 allows 4");
  for (int i = 0; i < 4; ++i) request.mutable_tensor()->add_shape(1);
  request.mutable_directml()->clear_feature_level();
  EXPECT_EQ(MessageOf(request),
            "the tensor has 9 dimensions; DirectML allows 1 .. 8");
}

TEST(Lower, NamesTheRangeOfAMissingAxis) {
  v1::TopKRequest request = DirectMLRequest();
  request.mutable_directml()->clear_axis();
  EXPECT_EQ(MessageOf(request), "axis is required: 0 .. 0");
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  request.mutable_tensor()->add_shape(2);
  request.mutable_openvino();
  EXPECT_EQ(MessageOf(request),
            "axis is required: -2 .. 1 for a tensor of rank 2");
}

TEST(Lower, TellsAMissingKFromZero) {
  v1::TopKRequest request = DirectMLRequest();
  request.mutable_directml()->clear_k();
  EXPECT_EQ(MessageOf(request), "DirectML TOP_K1 requires k");
  request.mutable_directml()->set_k(0);
  EXPECT_EQ(MessageOf(request), "k = 0 must be at least 1");
}

TEST(Lower, NamesTheTrueValueOfAHugeK) {
  v1::TopKRequest request = OnnxRequest();
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  v1::OpenVinoTopK& openvino = *request.mutable_openvino();
  openvino.set_axis(0);
  openvino.set_mode("max");
  openvino.set_sort("value");
  v1::Tensor& k = *openvino.mutable_k()->mutable_tensor();
  k.set_data_type(v1::DATA_TYPE_U64);
  k.set_data(std::string(8, '\xff'));
  EXPECT_EQ(MessageOf(request),
            "k = 18446744073709551615 exceeds every dimension");
  k.set_data("\xff\xff\xff\xff\xff\xff\xff\x7f");
  EXPECT_EQ(MessageOf(request),
            "k = 9223372036854775807 exceeds dimension 4 along axis 0");
}

TEST(CheckPayload, NamesWhatImpliesTheLength) {
  v1::TopKRequest request = DirectMLRequest();
  const auto message = [&request] {
    return CheckPayload(*Lower(request, Limits()), 99).message;
  };
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_F16);
  request.mutable_tensor()->set_shape(0, 3);
  EXPECT_EQ(message(),
            "the tensor has 99 bytes of data; its type (f16) and shape imply 6 "
            "(or 8 with padding)");
  request.mutable_tensor()->add_strides(2);
  EXPECT_EQ(message(),
            "the tensor has 99 bytes of data; its type (f16), shape and "
            "strides imply 10 (or 12 with padding)");
  request.mutable_directml()->set_input_total_tensor_size_bytes(16);
  EXPECT_EQ(message(), "the tensor has 99 bytes of data; its total size is 16");
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
