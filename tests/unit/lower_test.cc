// What tests/conformance/cases cannot express: error messages and untrusted
// text.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "core/engine.h"
#include "tests/support/requests.h"

namespace topk {
namespace {

v1::TopKRequest OnnxRequest() {
  return testing::OnnxRequest(v1::DATA_TYPE_F32, {4}, 1);
}
v1::TopKRequest DirectMLRequest() {
  return testing::DirectMLRequest(v1::DATA_TYPE_F32, {4}, 1);
}
v1::TopKRequest OpenVinoRequest() {
  return testing::OpenVinoRequest(v1::DATA_TYPE_F32, {4}, 1);
}

void SetK(DType type, std::string data, v1::KInput& k) {
  k.mutable_tensor()->set_data_type(static_cast<v1::DataType>(type));
  k.mutable_tensor()->set_data(std::move(data));
}

Status StatusOf(const v1::TopKRequest& request) {
  return Lower(request, Limits()).status();
}

TEST(Lower, NamesTheVersionToUse) {
  v1::TopKRequest request = OnnxRequest();
  for (const auto& [sent, use] :
       {std::pair(13, "ONNX TopK-11"), std::pair(23, "ONNX TopK-11"),
        std::pair(9, "ONNX TopK-1"), std::pair(99, "ONNX TopK-24"),
        std::pair(0, "ONNX TopK-24"), std::pair(-1, "ONNX TopK-24")}) {
    request.mutable_spec()->set_version(sent);
    const std::string message = StatusOf(request).message;
    EXPECT_NE(message.find(use), std::string::npos) << message;
  }
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

struct Refusal {
  v1::TopKRequest request;
  std::function<void(v1::TopKRequest&)> change;
  const char* message;
};

TEST(Lower, ExplainsRefusals) {
  using R = v1::TopKRequest;
  const Refusal refusals[] = {
      {OnnxRequest(),
       [](R& r) { r.mutable_tensor()->set_data_type(v1::DATA_TYPE_BF16); },
       "data type bf16 is not allowed; ONNX TopK-11 allows f16, f32, f64, i8, "
       "i16, i32, i64, u8, u16, u32, u64"},
      {OnnxRequest(),
       [](R& r) { r.mutable_tensor()->set_data_type(v1::DATA_TYPE_U4); },
       "data type u4 is not allowed; ONNX TopK-11 allows f16, f32, f64, i8, "
       "i16, i32, i64, u8, u16, u32, u64"},
      {OnnxRequest(),
       [](R& r) { r.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO); },
       "spec.dialect is OpenVINO, but the field openvino, which has the "
       "attributes, is not set"},
      {DirectMLRequest(),
       [](R& r) {
         for (int i = 0; i < 4; ++i) r.mutable_tensor()->add_shape(1);
         r.mutable_directml()->set_feature_level(v1::FEATURE_LEVEL_3_0);
       },
       "the tensor has 5 dimensions; FEATURE_LEVEL_3_0 allows 4"},
      {testing::DirectMLRequest(v1::DATA_TYPE_F32, {101, 102, 4}, 1, 2),
       [](R& r) {
         for (const int stride : {102, 101, 0}) {
           r.mutable_directml()->mutable_output_value()->add_strides(stride);
         }
       },
       "the output has 10302 elements; with more than 1024, each stride must "
       "exceed the total extent of the dimensions with smaller strides"},
      {OpenVinoRequest(),
       [](R& r) {
         SetK(DType::kU64, std::string(8, '\xff'),
              *r.mutable_openvino()->mutable_k());
       },
       "k = 18446744073709551615 exceeds the maximum size of a dimension"},
      {OpenVinoRequest(),
       [](R& r) {
         SetK(DType::kU64, std::string(7, '\xff') + '\x7f',
              *r.mutable_openvino()->mutable_k());
       },
       "k = 9223372036854775807 exceeds dimension 4 along axis 0"},
      {OpenVinoRequest(),
       [](R& r) {
         r.mutable_tensor()->set_data_type(v1::DATA_TYPE_U8);
         r.mutable_tensor()->set_shape(0, (int64_t{1} << 31) + 1);
       },
       "index 2147483648 along axis 0 with index_offset = 0 exceeds "
       "2147483647, "
       "the maximum of the index type i32"},
  };
  for (const Refusal& refusal : refusals) {
    R request = refusal.request;
    refusal.change(request);
    EXPECT_EQ(StatusOf(request).message, refusal.message);
  }
}

TEST(Lower, TruncatesUntrustedShapesAndTexts) {
  v1::TopKRequest request = OnnxRequest();
  v1::KInput& k = *request.mutable_onnx()->mutable_k();
  SetK(DType::kI64, std::string(8, '\0'), k);
  for (int i = 0; i < 10000; ++i) k.mutable_tensor()->add_shape(1);
  const std::string message = StatusOf(request).message;
  EXPECT_NE(message.find("[1, 1, "), std::string::npos);
  EXPECT_LT(message.size(), 150u);

  request = OpenVinoRequest();
  request.mutable_openvino()->set_mode("m\xC3\xA4x\n" + std::string(1000, 'x'));
  const Status status = StatusOf(request);
  EXPECT_EQ(status.field, "openvino.mode");
  EXPECT_LT(status.message.size(), 200u);
  for (const char c : status.message) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
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
