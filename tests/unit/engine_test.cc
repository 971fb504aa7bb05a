// The engine as a whole: what it says it serves, and many threads at once.
#include "core/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/support/compute.h"
#include "tests/support/generators.h"

namespace topk::testing {
namespace {

// A right request of one row, for whichever operator.
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
        // The length of the data is checked last: it is not that of the type.
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

TEST(Capabilities, HaveBackendsAndLimits) {
  const Engine engine({3, {1000, 2000}});
  const v1::Capabilities served = engine.GetCapabilities();
  ASSERT_GT(served.backends_size(), 0);
  const auto& portable = served.backends(served.backends_size() - 1);
  EXPECT_EQ(portable.name(), "cpu");
  EXPECT_EQ(portable.thread_count(), 3);
  EXPECT_FALSE(portable.instruction_set().empty());
  EXPECT_EQ(served.limits().max_elements(), 1000);
  EXPECT_EQ(served.limits().max_output_bytes(), 2000);
  EXPECT_FALSE(served.ordering_rule().empty());
  EXPECT_FALSE(served.build_version().empty());
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

TEST(Engine, ComputesDataApartFromTheRequest) {
  v1::Spec spec;
  spec.set_dialect(v1::DIALECT_ONNX);
  spec.set_version(11);
  v1::TopKRequest request = OneRow(spec, v1::DATA_TYPE_U8, v1::DATA_TYPE_I64);
  request.mutable_tensor()->set_data("its own is ignored");
  const std::string data = "\x01\x09\x03";
  const auto answer =
      Engine({1, {}}).Compute(request, std::as_bytes(std::span(data)));
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(answer->values().data(), "\x09");
  EXPECT_EQ(answer->execution().backend(), "cpu");
  EXPECT_GE(answer->execution().compute_nanoseconds(), 0);
}

TEST(Engine, StreamRejectsTheFirstExcessByte) {
  v1::Spec spec;
  spec.set_dialect(v1::DIALECT_DIRECTML);
  v1::TopKRequest header = OneRow(spec, v1::DATA_TYPE_U8, v1::DATA_TYPE_U32);
  header.mutable_tensor()->clear_source();
  const Engine engine({1, {}});
  for (const bool strided : {false, true}) {
    if (strided) header.mutable_tensor()->add_strides(1);
    auto stream = StartStream(engine, header);
    ASSERT_TRUE(stream.ok()) << stream.status().message;
    // Three elements, and one byte that pads them to four.
    EXPECT_TRUE(stream->Feed(std::vector<std::byte>(4)).ok());
    EXPECT_EQ(stream->Feed(std::vector<std::byte>(1)).reason, "DATA_LENGTH");
  }
}

TEST(Engine, ReturnsTheRequestsId) {
  v1::Spec spec;
  spec.set_dialect(v1::DIALECT_ONNX);
  spec.set_version(11);
  v1::TopKRequest request = OneRow(spec, v1::DATA_TYPE_F64, v1::DATA_TYPE_I64);
  request.set_request_id("mine");
  EXPECT_EQ(Compute(Engine({1, {}}), request)->request_id(), "mine");
}

}  // namespace
}  // namespace topk::testing
