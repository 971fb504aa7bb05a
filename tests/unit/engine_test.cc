// The engine's capabilities, and concurrent requests.
#include "core/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/support/compute.h"
#include "tests/support/generators.h"

namespace topk::testing {
namespace {

// Returns a valid request with one row for an operator.
v1::TopKRequest OneRow(const v1::Spec& spec, v1::DataType type,
                       v1::DataType index_type) {
  v1::TopKRequest request;
  *request.mutable_spec() = spec;
  request.mutable_tensor()->set_data_type(type);
  request.mutable_tensor()->add_shape(3);
  request.mutable_tensor()->set_data(std::string(24, '\0'));
  switch (spec.dialect()) {
    case v1::DIALECT_ONNX:
      request.mutable_onnx()->mutable_k()->set_value(1);
      break;
    case v1::DIALECT_OPENVINO:
      request.mutable_openvino()->set_axis(0);
      request.mutable_openvino()->set_mode("max");
      request.mutable_openvino()->set_sort("value");
      request.mutable_openvino()->mutable_k()->set_value(1);
      if (index_type == v1::DATA_TYPE_I64) {
        request.mutable_openvino()->set_index_element_type("i64");
      }
      break;
    default:
      request.mutable_directml()->set_axis(0);
      request.mutable_directml()->set_k(1);
      if (spec.version() == 1) {
        request.mutable_directml()->set_axis_direction(
            v1::AXIS_DIRECTION_DECREASING);
      }
      request.mutable_directml()->mutable_output_index()->set_data_type(
          index_type);
  }
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

TEST(Engine, IsThreadSafe) {
  const Engine engine({2, {}});
  Random random(Seed(6));
  std::vector<v1::TopKRequest> requests;
  std::vector<std::string> expected;
  const auto answer = [](v1::TopKResponse response) {
    response.clear_execution();
    return response.SerializeAsString();
  };
  for (int i = 0; i < 60; ++i) {
    requests.push_back(RandomRequest(random));
    const auto response = Compute(engine, requests.back());
    ASSERT_TRUE(response.ok()) << response.status().message;
    expected.push_back(answer(*response));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < requests.size(); ++i) {
        const size_t r = (i + t * 10) % requests.size();
        const auto response = Compute(engine, requests[r]);
        wrong += !response.ok() || answer(*response) != expected[r];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace topk::testing
