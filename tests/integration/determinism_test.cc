// All kinds of calls, instruction sets and thread counts return the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/backends/registry.h"
#include "tests/integration/oip.h"
#include "tests/support/client_calls.h"
#include "tests/support/oracle.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using Requests = std::vector<v1::TopKRequest>;

#ifdef TOPK_SANITIZED
constexpr size_t kCount = 100;
constexpr int kThreads[] = {16};
#else
constexpr size_t kCount = 1000;
constexpr int kThreads[] = {1, 2, 4, 16};
#endif

// A request and the oracle's response.
struct Case {
  v1::TopKRequest request;
  v1::TopKResponse expected;
};

// Returns requests that run on several threads: long rows, many rows, columns.
Requests LargeRequests(Random& random) {
  Requests requests = {
      Request(v1::DATA_TYPE_F32, {1 << 20}, 0, 1000),
      Request(v1::DATA_TYPE_I64, {200000}, 0, 64),
      Request(v1::DATA_TYPE_F64, {8, 20000}, 1, 50),
      Request(v1::DATA_TYPE_F16, {1000, 500}, 0, 9),
      Request(v1::DATA_TYPE_BF16, {100000}, 0, 100000),
      Request(v1::DATA_TYPE_U32, {1000, 300}, 1, 30),
      Request(v1::DATA_TYPE_U8, {2 << 20}, 0, 5000),
      Request(v1::DATA_TYPE_F32, {4, 100000}, 1, 20000),
  };
  for (v1::TopKRequest& request : requests) {
    std::string& data = *request.mutable_tensor()->mutable_data();
    for (char& byte : data) byte = static_cast<char>(random());
  }
  // The smallest of a thousand distinct values, including NaNs.
  requests.back().mutable_onnx()->set_largest(0);
  std::string& data = *requests.back().mutable_tensor()->mutable_data();
  for (size_t i = 0; i < data.size(); i += 4) {
    data[i] = data[i + 1] = 0;
    data[i + 2] &= '\xC0';
  }
  return requests;
}

std::string BytesOf(v1::TopKResponse response) {
  response.clear_request_id();
  for (v1::Tensor* tensor :
       {response.has_values() ? response.mutable_values() : nullptr,
        response.has_indices() ? response.mutable_indices() : nullptr}) {
    // Treat an absent source like one without bytes.
    if (tensor != nullptr) tensor->set_data(std::string(tensor->data()));
  }
  return Comparable(response);
}

void Check(const char* kind, const Case& asked,
           const Result<v1::TopKResponse>& result) {
  if (result.ok() && BytesOf(*result) == BytesOf(asked.expected)) return;
  ADD_FAILURE() << kind << ": "
                << (result.ok() ? "the result is not the oracle's"
                                : result.status().message)
                << ", of\n"
                << asked.request.ShortDebugString().substr(0, 2000);
}

// Puts the tensor and both outputs into shared memory at odd offsets.
Result<v1::TopKResponse> Shared(const Client& client,
                                const v1::TopKRequest& plain,
                                SharedMemory& memory) {
  constexpr size_t kRoom = (5 << 20) + 3;
  v1::TopKRequest request =
      InMemory(plain, plain.tensor().data().size() % 13, memory);
  const auto selection = plain.output().selection();
  if (selection != v1::OUTPUT_SELECTION_INDICES_ONLY) {
    *request.mutable_output()->mutable_values() = memory.Region(kRoom, kRoom);
  }
  if (selection != v1::OUTPUT_SELECTION_VALUES_ONLY) {
    *request.mutable_output()->mutable_indices() =
        memory.Region(2 * kRoom, kRoom);
  }
  auto result = ComputeUnary(client, request);
  if (!result.ok()) return result;
  const auto fetch = [&](v1::Tensor& tensor) {
    EXPECT_TRUE(tensor.has_shared_memory());
    tensor.set_data(Bytes(memory, tensor.shared_memory()));
  };
  if (result->has_values()) fetch(*result->mutable_values());
  if (result->has_indices()) fetch(*result->mutable_indices());
  return result;
}

void ExpectInferred(OipStub& stub, const Case& asked) {
  if (!IsExpressible(asked.request)) return;
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  ModelInferResponse answer;
  const grpc::Status status =
      stub.ModelInfer(&context, Translate(asked.request), &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectSame(answer, asked.expected);
}

// Sends the requests to a server with all kinds of calls at the same time, so
// that they share the workers. Two threads share each client.
void ExpectAnswers(const std::string& set, int threads,
                   const std::vector<Case>& cases) {
  setenv(kInstructionSetVariable, set.c_str(), 1);
  ServerConfig config = SharedMemoryConfig();
  config.threads = config.pollers = threads;
  const TestServer server(config);
  unsetenv(kInstructionSetVariable);
  const auto arguments = OwnConnection();
  // Clients compress messages that shrink.
  arguments->SetCompressionAlgorithm(threads == 2    ? GRPC_COMPRESS_GZIP
                                     : threads == 16 ? GRPC_COMPRESS_DEFLATE
                                                     : GRPC_COMPRESS_NONE);
  arguments->SetMaxReceiveMessageSize(-1);
  const ClientOptions options = {.target = server.target(),
                                 .channel_arguments = arguments};
  const Client unary(options);
  const Client streaming(options);
  const Client sharing(options);
  EXPECT_EQ(
      ComputeUnary(unary, cases.front().request)->execution().instruction_set(),
      set);
  SharedMemory memory = Make(Name("all"), size_t{16} << 20);
  const auto oip = GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
      server.target(), grpc::InsecureChannelCredentials(), *arguments));
  std::vector<std::jthread> callers;
  const auto start = [&](auto ask) {
    callers.emplace_back([&, ask] {
      for (const Case& each : cases) {
        ask(each);
        if (::testing::Test::HasFailure()) break;
      }
    });
  };
  for (int i = 0; i < 2; ++i) {
    start([&](const Case& each) {
      Check("ComputeTopK", each, ComputeUnary(unary, each.request));
    });
    start([&](const Case& each) {
      const std::string& data = each.request.tensor().data();
      Check("StreamTopK", each,
            ComputeStream(streaming, HeaderOf(each.request).header(),
                          std::as_bytes(std::span(data))));
    });
  }
  start([&](const Case& each) {
    Check("shared memory", each, Shared(sharing, each.request, memory));
  });
  start([&](const Case& each) { ExpectInferred(*oip, each); });
  Requests requests;
  for (const Case& each : cases) requests.push_back(each.request);
  const auto many = ComputeMany(Client(options), requests);
  ASSERT_EQ(many.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    Check("ComputeTopKMany", cases[i], many[i]);
  }
}

TEST(Determinism, AllResultsAreTheOracles) {
  Random random(Seed(20261121));
  Requests requests = LargeRequests(random);
  while (requests.size() < kCount) requests.push_back(RandomRequest(random));
  std::shuffle(requests.begin(), requests.end(), random);
  std::vector<Case> cases;
  for (const v1::TopKRequest& request : requests) {
    cases.push_back({request, Oracle(request)});
  }
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    for (const int threads : kThreads) {
      ExpectAnswers(std::string(set.name), threads, cases);
      ASSERT_FALSE(HasFailure()) << set.name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace topk::testing
