// The engine's capabilities.
#include "core/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compute.h"
#include "tests/support/generators.h"
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

}  // namespace
}  // namespace topk::testing
