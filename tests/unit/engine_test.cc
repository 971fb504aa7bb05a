// The engine's capabilities, limits and costs, and what tests/conformance/cases
// cannot express: missing parts, long messages, untrusted text, and all small
// overlaps.
#include "core/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "core/plan/layout.h"
#include "tests/support/compute.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

// Returns a valid request with one row for an operator.
v1::TopKRequest OneRow(const v1::Spec& spec, v1::DataType index_type) {
  constexpr v1::DataType type = v1::DATA_TYPE_F16;
  v1::TopKRequest request;
  if (spec.dialect() == v1::DIALECT_ONNX) {
    request = OnnxRequest(type, {3}, 1);
  } else if (spec.dialect() == v1::DIALECT_OPENVINO) {
    request = OpenVinoRequest(type, {3}, 1);
    if (index_type == v1::DATA_TYPE_I64) {
      request.mutable_openvino()->set_index_element_type("i64");
    }
  } else {
    request = DirectMLRequest(type, {3}, 1);
    if (spec.version() == 0) request.mutable_directml()->clear_axis_direction();
    request.mutable_directml()->mutable_output_index()->set_data_type(
        index_type);
  }
  *request.mutable_spec() = spec;
  request.mutable_tensor()->set_data(std::string(6, '\0'));
  return request;
}

// conformance/conformance_test.cc sends requests of all AllowedTypes().
TEST(Capabilities, ListExactlyTheAcceptedTypes) {
  const Engine engine({1, {}});
  const v1::Capabilities served = engine.GetCapabilities();
  EXPECT_EQ(served.operators_size(), 4 + 3 + 2);
  for (const v1::OperatorCapability& row : served.operators()) {
    constexpr int kNewestLevel = 0x6400;
    EXPECT_THAT(row.data_types(),
                ::testing::UnorderedElementsAreArray(AllowedTypes(
                    row.spec().dialect(), row.spec().version(), kNewestLevel)))
        << row.name();
    ASSERT_GT(row.index_types_size(), 0) << row.name();
    const auto index_type_of = [&](int index_type) {
      const auto answer = Compute(
          engine, OneRow(row.spec(), static_cast<v1::DataType>(index_type)));
      EXPECT_TRUE(answer.ok()) << row.name() << answer.status().message;
      return answer->indices().data_type();
    };
    EXPECT_EQ(index_type_of(0), row.index_types(0)) << row.name();
    for (const int index_type : row.index_types()) {
      EXPECT_EQ(index_type_of(index_type), index_type) << row.name();
    }
  }
}

// One element is repeated 2^32 - 1 times, so the result is the first k.
TEST(Engine, ReadsARepeatedElementOnlyKTimes) {
  v1::TopKRequest request = DirectMLRequest(v1::DATA_TYPE_U8, {4294967295}, 2);
  request.mutable_tensor()->add_strides(0);
  request.mutable_tensor()->set_data("x");
  const auto answer = Compute(Engine({1, {}}), request);
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().data(), "xx");
  EXPECT_EQ(answer->indices().data(), std::string("\0\0\0\0\1\0\0\0", 8));
}

TEST(Cost, OfAnEmptyTensorIsNothingWhateverItsShape) {
  const Engine engine({2, {}});
  for (const int64_t k : {int64_t{1}, int64_t{1} << 29, int64_t{1} << 30}) {
    const v1::TopKRequest request =
        OnnxRequest(v1::DATA_TYPE_F32, {0, int64_t{1} << 30}, k);
    EXPECT_EQ(engine.Prepare(request, 0, 1)->cost.working_bytes, 0);
    EXPECT_EQ(engine.PrepareStream(request)->cost.working_bytes, 0);
  }
}

// A sort numbers its candidates with 32 bits. Only packed types are small
// enough for the output limit to allow more candidates.
TEST(Limits, BoundTheSelectedElementsTo32Bits) {
  const Engine engine({1, {}});
  constexpr int64_t kTooMany = int64_t{1} << 32;
  v1::TopKRequest request =
      OpenVinoRequest(v1::DATA_TYPE_U1, {kTooMany}, kTooMany);
  request.mutable_openvino()->set_index_element_type("i64");
  request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  EXPECT_EQ(engine.PrepareStream(request).status().reason, "TOO_MANY_SELECTED");
  request.mutable_openvino()->mutable_k()->set_value(kTooMany - 1);
  EXPECT_TRUE(engine.PrepareStream(request).ok());
}

// One selection per column would need far more memory than the output does.
TEST(Limits, BoundTheColumnsOfAStream) {
  v1::TopKRequest header = OnnxRequest(v1::DATA_TYPE_U8, {3, 333334}, 1, 0);
  header.mutable_output()->set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  const Engine engine({1, {1 << 30, 64000000}});
  EXPECT_EQ(engine.PrepareStream(header).status().reason, "TOO_MANY_COLUMNS");
  header.mutable_tensor()->set_shape(1, 333333);
  EXPECT_TRUE(engine.PrepareStream(header).ok());
}

TEST(DTypes, MatchTheProtocol) {
  const auto& contract = *v1::DataType_descriptor();
  ASSERT_EQ(std::size(kDTypes),
            static_cast<size_t>(contract.value_count() - 1));  // unspecified
  for (int i = 1; i < contract.value_count(); ++i) {
    std::string name(contract.value(i)->name());
    name = name.substr(name.rfind('_') + 1);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    const int number = contract.value(i)->number();
    const DTypeInfo* row = FindDType(number);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_EQ(row->name, name);
    EXPECT_EQ(FindDType(name), row);
    EXPECT_EQ(&InfoOf(static_cast<DType>(number)), row);
    EXPECT_EQ(static_cast<size_t>(row->bits), ElementBits(number));
    EXPECT_EQ(row->bytes, (row->bits + 7) / 8) << name;
    // Types without a sign bit are ordered by their codes.
    const bool codes = name == "nf4" || name == "f8e8m0";
    EXPECT_EQ(row->is_float, name.find('f') != std::string::npos && !codes)
        << name;
  }
}

v1::TopKRequest SmallRequest() {
  return OnnxRequest(v1::DATA_TYPE_F32, {4}, 1);
}

Status StatusOf(const v1::TopKRequest& request) {
  return Lower(request, Limits()).status();
}

// Every line of a case file has both.
TEST(Lower, NeedsASpecAndATensor) {
  v1::TopKRequest request = SmallRequest();
  request.clear_spec();
  EXPECT_EQ(StatusOf(request).reason, "SPEC_MISSING");
  EXPECT_EQ(StatusOf(request).field, "spec");
  request = SmallRequest();
  request.clear_tensor();
  EXPECT_EQ(StatusOf(request).reason, "TENSOR_MISSING");
  EXPECT_EQ(StatusOf(request).field, "tensor");
}

TEST(Lower, TruncatesUntrustedShapesAndTexts) {
  v1::TopKRequest request = SmallRequest();
  v1::Tensor& k = *request.mutable_onnx()->mutable_k()->mutable_tensor();
  k.set_data_type(v1::DATA_TYPE_I64);
  k.set_data(std::string(8, '\0'));
  for (int i = 0; i < 10000; ++i) k.add_shape(1);
  const std::string message = StatusOf(request).message;
  EXPECT_NE(message.find("[1, 1, "), std::string::npos);
  EXPECT_LT(message.size(), 150u);

  request = OpenVinoRequest(v1::DATA_TYPE_F32, {4}, 1);
  request.mutable_openvino()->set_mode("m\xC3\xA4x\n" + std::string(1000, 'x'));
  const Status status = StatusOf(request);
  EXPECT_EQ(status.field, "openvino.mode");
  EXPECT_LT(status.message.size(), 200u);
  for (const char c : status.message) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(CheckPayload, NamesWhatImpliesTheLength) {
  v1::TopKRequest request = DirectMLRequest(v1::DATA_TYPE_F16, {3}, 1);
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

using Sizes = std::vector<int64_t>;

// Calls fn with all vectors of `rank` numbers between 0 and `last`.
template <class Fn>
void ForEach(size_t rank, int64_t last, const Fn& fn) {
  Sizes at(rank, 0);
  for (;;) {
    fn(at);
    size_t d = rank;
    while (d > 0 && ++at[d - 1] > last) at[--d] = 0;
    if (d == 0) return;
  }
}

bool OverlapsByLooking(const Sizes& shape, const Sizes& strides) {
  std::set<int64_t> places;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t place = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      place += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    if (!places.insert(place).second) return true;
  }
  return false;
}

TEST(Overlaps, EqualsEnumeration) {
  int overlapping = 0;
  int apart = 0;
  ForEach(3, 3, [&](const Sizes& shape) {
    ForEach(3, 10, [&](const Sizes& strides) {
      const bool expected = OverlapsByLooking(shape, strides);
      ++(expected ? overlapping : apart);
      ASSERT_EQ(Overlaps(shape, strides),
                expected ? Overlap::kYes : Overlap::kNo)
          << ::testing::PrintToString(shape) << " "
          << ::testing::PrintToString(strides);
    });
  });
  EXPECT_GT(apart, 0);
  EXPECT_GT(overlapping, 0);
}

TEST(Overlaps, DecidesHugeTensorsWithoutEnumeration) {
  const int64_t big = int64_t{1} << 31;
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{big, 2}, Sizes{2, 1}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{2, big}, Sizes{big - 1, 1}), Overlap::kYes);
  EXPECT_EQ(Overlaps(Sizes{big}, Sizes{0}), Overlap::kYes);
  // An empty tensor has nothing to overlap.
  EXPECT_EQ(Overlaps(Sizes{big, 0}, Sizes{0, 0}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{big, 2, 1}, Sizes{2, 1, 0}), Overlap::kNo);
}

// Coprime strides are not nested, but meet only at their product.
TEST(Overlaps, ComparesFewElements) {
  const int64_t a = 31;
  EXPECT_EQ(Overlaps(Sizes{a, a + 1}, Sizes{a + 1, a}), Overlap::kNo);
  EXPECT_EQ(Overlaps(Sizes{a, 2, 16}, Sizes{a + 1, 950, a}), Overlap::kYes);
  const int64_t b = 101;
  EXPECT_EQ(Overlaps(Sizes{b, b + 1}, Sizes{b + 1, b}), Overlap::kUndecided);
}

}  // namespace
}  // namespace topk::testing
