// The engine's capabilities, limits and costs.
#include "core/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "core/base/dtype.h"
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

// conformance/random_test.cc sends requests of all AllowedTypes().
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

}  // namespace
}  // namespace topk::testing
