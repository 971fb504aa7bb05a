// The engine's capabilities.
#include "core/engine.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/compute.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

// Returns a valid request with one row for an operator.
v1::TopKRequest OneRow(const v1::Spec& spec, v1::DataType type,
                       v1::DataType index_type) {
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
  request.mutable_tensor()->set_data(std::string(24, '\0'));
  return request;
}

TEST(Capabilities, ListExactlyTheAcceptedTypes) {
  const Engine engine({1, {}});
  const v1::Capabilities served = engine.GetCapabilities();
  EXPECT_EQ(served.operators_size(), 4 + 3 + 2);
  for (const v1::OperatorCapability& row : served.operators()) {
    std::set<int> types(row.data_types().begin(), row.data_types().end());
    ASSERT_GT(row.index_types_size(), 0) << row.name();
    for (int type = 1; type < v1::DataType_ARRAYSIZE; ++type) {
      for (const int index_type : row.index_types()) {
        v1::TopKRequest request =
            OneRow(row.spec(), static_cast<v1::DataType>(type),
                   static_cast<v1::DataType>(index_type));
        const Status status = Compute(engine, request).ok()
                                  ? Status()
                                  : Compute(engine, request).status();
        // The data has the wrong length, which is checked last.
        EXPECT_EQ(status.field != "tensor.data_type", types.count(type) == 1)
            << row.name() << " " << v1::DataType_Name(type) << " "
            << status.message;
      }
    }
    v1::TopKRequest first =
        OneRow(row.spec(), v1::DATA_TYPE_F16, v1::DATA_TYPE_UNSPECIFIED);
    first.mutable_tensor()->set_data(std::string(6, '\0'));
    const auto answer = Compute(engine, first);
    ASSERT_TRUE(answer.ok()) << row.name() << answer.status().message;
    EXPECT_EQ(answer->indices().data_type(), row.index_types(0)) << row.name();
  }
}

}  // namespace
}  // namespace topk::testing
