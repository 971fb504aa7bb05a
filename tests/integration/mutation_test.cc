// Ten thousand damaged requests: each gets a status, and the server serves on.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <random>

#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/generators.h"
#include "tests/support/quiet_protobuf.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

constexpr int kMutations = 10'000;

// Damages requests, the same for the same seed.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Next() {
    v1::TopKRequest request = Valid();
    const int kind = Below(5);
    if (kind == 0) return RandomBytes();
    if (kind == 1) {
      for (int i = Below(4); i >= 0; --i) SetAField(request);
      return request.SerializeAsString();
    }
    std::string bytes = request.SerializeAsString();
    if (kind == 2)
      return bytes.substr(0, static_cast<size_t>(Below(Size(bytes))));
    for (int i = Below(6); i >= 0; --i) {
      bytes[static_cast<size_t>(Below(Size(bytes)))] ^=
          static_cast<char>(1 << Below(8));
    }
    if (kind == 3) return bytes;
    const size_t at = static_cast<size_t>(Below(Size(bytes)));
    return bytes.insert(at, RandomBytes());
  }

  /// A number of 0 .. bound - 1.
  int Below(int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random_);
  }

 private:
  static int Size(const std::string& bytes) {
    return static_cast<int>(bytes.size());
  }

  // Mostly numbers near those that are right, and the ends of the range.
  int64_t Number() {
    constexpr int64_t kEnds[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX,
                                 -1,        1LL << 32, 1LL << 62, 0};
    const int kind = Below(3);
    if (kind == 0) return kEnds[Below(std::size(kEnds))];
    if (kind == 1) return Below(12) - 2;
    return static_cast<int64_t>(random_());
  }

  std::string RandomBytes() {
    std::string bytes(static_cast<size_t>(Below(64)), '\0');
    for (char& byte : bytes) byte = static_cast<char>(Below(256));
    return bytes;
  }

  v1::TopKRequest Valid() {
    v1::TopKRequest request = OnnxRequest({1, 5, 3, 2}, 2);
    const int dialect = Below(3);
    if (dialect == 1) {
      request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
      request.mutable_openvino()->set_axis(0);
      request.mutable_openvino()->set_mode("max");
      request.mutable_openvino()->set_sort("index");
      request.mutable_openvino()->mutable_k()->set_value(2);
    } else if (dialect == 2) {
      request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
      request.mutable_spec()->set_version(1);
      request.mutable_tensor()->add_strides(1);
      request.mutable_directml()->set_axis(0);
      request.mutable_directml()->set_k(2);
      request.mutable_directml()->set_axis_direction(
          v1::AXIS_DIRECTION_INCREASING);
      request.mutable_directml()->mutable_output_value()->add_strides(2);
    }
    return request;
  }

  void SetAField(v1::TopKRequest& request) {
    const std::function<void()> fields[] = {
        [&] { request.mutable_tensor()->add_shape(Number()); },
        [&] { request.mutable_tensor()->set_shape(0, Number()); },
        [&] { request.mutable_tensor()->add_strides(Number()); },
        [&] { request.mutable_tensor()->set_data(RandomBytes()); },
        [&] { request.mutable_tensor()->clear_source(); },
        [&] { request.mutable_tensor()->mutable_shared_memory(); },
        [&] {
          request.mutable_tensor()->set_data_type(
              static_cast<v1::DataType>(Below(26)));
        },
        [&] { request.mutable_spec()->set_version(Below(26)); },
        [&] {
          request.mutable_spec()->set_dialect(
              static_cast<v1::Dialect>(Below(5)));
        },
        [&] { request.mutable_onnx()->set_axis(Number()); },
        [&] { request.mutable_onnx()->mutable_k()->set_value(Number()); },
        [&] { request.mutable_onnx()->set_sorted(Number()); },
        [&] { request.mutable_openvino()->set_axis(Number()); },
        [&] { request.mutable_openvino()->set_mode("mode"); },
        [&] {
          v1::Tensor& k =
              *request.mutable_openvino()->mutable_k()->mutable_tensor();
          k.set_data_type(static_cast<v1::DataType>(Below(26)));
          k.set_data(RandomBytes());
        },
        [&] { request.mutable_directml()->set_k(Number()); },
        [&] { request.mutable_directml()->set_axis(Number()); },
        [&] {
          request.mutable_directml()->set_input_total_tensor_size_bytes(
              Number());
        },
        [&] {
          v1::TensorDesc& out =
              *request.mutable_directml()->mutable_output_index();
          out.add_sizes(Number());
          out.add_strides(Number());
          out.set_total_tensor_size_bytes(Number());
        },
        [&] { request.set_index_offset(Number()); },
        [&] {
          request.mutable_output()->set_selection(
              static_cast<v1::OutputSelection>(Below(5)));
        },
        [&] { request.mutable_output()->mutable_values(); },
        [&] {
          request.set_request_id(
              std::string(static_cast<size_t>(Below(600)), 'r'));
        }};
    fields[Below(std::size(fields))]();
  }

  std::mt19937_64 random_;
};

bool IsExpected(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK ||
         code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::UNIMPLEMENTED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

TEST(Mutation, EveryRequestReceivesAStatus) {
  const QuietProtobuf quiet;
  // Small limits save time.
  const TestServer server(
      {.max_elements = 1 << 20, .max_output_bytes = 1 << 20});
  const auto channel = server.Connect();
  const std::string service = "/topk.v1.TopKService/";
  Mutator mutator(Seed(1));
  std::map<int, int> codes;
  for (int i = 0; i < kMutations && !::testing::Test::HasFailure(); ++i) {
    const int method = mutator.Below(10);
    RawAnswer answer;
    if (method == 0) {  // a header, often broken, and any pieces
      v1::TopKRequestChunk header;
      static_cast<void>(
          header.mutable_header()->ParseFromString(mutator.Next()));
      header.mutable_header()->mutable_tensor()->clear_source();
      answer = RawCall(channel, service + "StreamTopK",
                       {header.SerializeAsString(), mutator.Next()});
    } else if (method == 1) {
      answer = RawCall(channel, service + "ComputeTopKMany",
                       {mutator.Next(), mutator.Next()});
      EXPECT_EQ(answer.messages.size(), 2u);
    } else {
      answer = RawCall(channel, service + "ComputeTopK", {mutator.Next()});
    }
    ++codes[answer.status.error_code()];
    EXPECT_TRUE(IsExpected(answer.status.error_code()))
        << "request " << i << ": " << answer.status.error_code() << " "
        << answer.status.error_message();
  }
  for (const auto& [code, count] : codes) {
    std::cout << "code " << code << ": " << count << "\n";
  }
  EXPECT_GT(codes[0], kMutations / 50) << "hardly a request was valid";
  EXPECT_TRUE(Ask(server, OnnxRequest({1}, 1)).status.ok());
}

}  // namespace
}  // namespace topk::testing
