// ComputeTopK and GetCapabilities over a channel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "tests/integration/ask.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::ElementsAre;

template <class Element>
std::vector<Element> Elements(const v1::Tensor& tensor) {
  std::vector<Element> elements(tensor.data().size() / sizeof(Element));
  std::memcpy(elements.data(), tensor.data().data(), tensor.data().size());
  return elements;
}

v1::TopKResponse AnswerOf(const TestServer& server,
                          const v1::TopKRequest& request) {
  Asked asked = Ask(server, request);
  EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
  return std::move(asked.response);
}

TEST(ComputeTopK, ReturnsValuesAndIndices) {
  const TestServer server;
  v1::TopKRequest request = OnnxRequest({1, 5, 3, 5, 2}, 3);
  request.set_request_id("a");
  request.set_index_offset(10);
  const v1::TopKResponse response = AnswerOf(server, request);
  EXPECT_THAT(Elements<float>(response.values()), ElementsAre(5, 5, 3));
  EXPECT_THAT(Elements<int64_t>(response.indices()), ElementsAre(11, 13, 12));
  EXPECT_THAT(response.values().shape(), ElementsAre(3));
  EXPECT_EQ(response.indices().data_type(), v1::DATA_TYPE_I64);
  EXPECT_EQ(response.request_id(), "a");
  EXPECT_EQ(response.execution().backend(), "cpu");
  EXPECT_GT(response.execution().compute_nanoseconds(), 0);
}

TEST(ComputeTopK, ReturnsOnlyTheSelectedOutput) {
  const TestServer server;
  v1::TopKRequest request = OnnxRequest({1, 5, 3}, 1);
  request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_INDICES_ONLY);
  const v1::TopKResponse response = AnswerOf(server, request);
  EXPECT_FALSE(response.has_values());
  EXPECT_THAT(Elements<int64_t>(response.indices()), ElementsAre(1));
}

TEST(ComputeTopK, ServesEveryDialect) {
  const TestServer server;
  v1::TopKRequest openvino = OnnxRequest({1, 5, 3}, 1);
  openvino.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  openvino.mutable_openvino()->set_axis(0);
  openvino.mutable_openvino()->set_mode("min");
  openvino.mutable_openvino()->set_sort("value");
  openvino.mutable_openvino()->mutable_k()->set_value(1);
  EXPECT_THAT(Elements<int32_t>(AnswerOf(server, openvino).indices()),
              ElementsAre(0));
  v1::TopKRequest directml = OnnxRequest({1, 5, 3}, 1);
  directml.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  directml.mutable_spec()->set_version(1);
  directml.mutable_directml()->set_axis(0);
  directml.mutable_directml()->set_k(2);
  directml.mutable_directml()->set_axis_direction(
      v1::AXIS_DIRECTION_DECREASING);
  EXPECT_THAT(Elements<uint32_t>(AnswerOf(server, directml).indices()),
              ElementsAre(1, 2));
}

TEST(ComputeTopK, ServesUnixSocketsAndSeveralAddresses) {
  const std::string path = ::testing::TempDir() + "topk_compute_test.sock";
  {
    TestServer server({.listen = {"unix:" + path, "127.0.0.1:0", "127.0.0.1:0"},
                       .unix_socket_mode = 0640});
    EXPECT_EQ(server.target(), "unix:" + path);
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    const std::vector<std::string> addresses = server.server().addresses();
    ASSERT_EQ(addresses.size(), 3u);
    for (const std::string& address : addresses) {
      EXPECT_TRUE(Ask(address, OnnxRequest({1, 2}, 1)).status.ok()) << address;
    }
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the socket outlives the server";
}

TEST(GetCapabilities, NamesTheLimitsInForce) {
  const TestServer server({.max_message_bytes = 12345,
                           .max_elements = 678,
                           .max_output_bytes = 90});
  grpc::ClientContext context;
  v1::Capabilities capabilities;
  ASSERT_TRUE(server.Stub()->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.limits().max_message_bytes(), 12345);
  EXPECT_EQ(capabilities.limits().max_elements(), 678);
  EXPECT_EQ(capabilities.limits().max_output_bytes(), 90);
  EXPECT_FALSE(capabilities.limits().shared_memory());
  EXPECT_EQ(capabilities.operators_size(), 9);
  for (const v1::OperatorCapability& row : capabilities.operators()) {
    if (row.spec().dialect() == v1::DIALECT_OPENVINO) {  // takes them all
      EXPECT_EQ(row.data_types_size(),
                v1::DataType_descriptor()->value_count() - 1);
    } else {
      EXPECT_LE(row.data_types_size(), 12) << row.name();
    }
  }
  EXPECT_FALSE(capabilities.build_version().empty());
}

}  // namespace
}  // namespace topk::testing
