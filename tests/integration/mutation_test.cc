// Ten thousand damaged requests all receive a status.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/generators.h"
#include "tests/support/quiet_protobuf.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

constexpr int kMutations = 10'000;

// Returns a request with wrong fields, damaged bytes, or random bytes only.
std::string Mutate(Random& random) {
  const auto random_bytes = [&] {
    std::string bytes(static_cast<size_t>(Pick(random, 0, 63)), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  v1::TopKRequest request = RandomRequest(random);
  const int64_t kind = Pick(random, 0, 4);
  if (kind == 0) return random_bytes();
  if (kind == 1) {
    for (int64_t i = Pick(random, 1, 4); i > 0; --i) Corrupt(random, request);
    return request.SerializeAsString();
  }
  std::string bytes = request.SerializeAsString();
  const auto place = [&] {
    return static_cast<size_t>(random() % bytes.size());
  };
  if (kind == 2) return bytes.substr(0, place());
  for (int64_t i = Pick(random, 1, 6); i > 0; --i) {
    bytes[place()] ^= static_cast<char>(1 << Pick(random, 0, 7));
  }
  return kind == 3 ? bytes : bytes.insert(place(), random_bytes());
}

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
  Random random(Seed(1));
  std::map<int, int> codes;
  for (int i = 0; i < kMutations && !::testing::Test::HasFailure(); ++i) {
    const int64_t method = Pick(random, 0, 9);
    RawAnswer answer;
    if (method == 0) {  // a header, often invalid, and random chunks
      v1::TopKRequestChunk header;
      static_cast<void>(
          header.mutable_header()->ParseFromString(Mutate(random)));
      header.mutable_header()->mutable_tensor()->clear_source();
      answer = RawCall(channel, service + "StreamTopK",
                       {header.SerializeAsString(), Mutate(random)});
    } else if (method == 1) {
      answer = RawCall(channel, service + "ComputeTopKMany",
                       {Mutate(random), Mutate(random)});
      EXPECT_EQ(answer.messages.size(), 2u);
    } else {
      answer = RawCall(channel, service + "ComputeTopK", {Mutate(random)});
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
