// All kinds of calls, instruction sets and thread counts return the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/backends/registry.h"
#include "tests/integration/ask.h"
#include "tests/integration/oip.h"
#include "tests/integration/topkd.h"
#include "tests/support/client_calls.h"
#include "tests/support/oracle.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using Requests = std::vector<v1::TopKRequest>;
// The bytes of each response, or "" if the call cannot express the request.
using Answers = std::vector<std::string>;

constexpr size_t kCount = 1000;
constexpr int64_t kMiB = int64_t{1} << 20;

struct ServerStubs {
  std::unique_ptr<v1::TopKService::Stub> topk;
  std::unique_ptr<GRPCInferenceService::Stub> oip;
  const Client& client;
  SharedMemory& memory;
};

// Returns requests that run on several threads: long rows, many rows, columns.
Requests LargeRequests(Random& random) {
  Requests requests = {
      Request(v1::DATA_TYPE_F32, {kMiB}, 0, 1000),
      Request(v1::DATA_TYPE_I64, {200000}, 0, 64),
      Request(v1::DATA_TYPE_F64, {8, 20000}, 1, 50),
      Request(v1::DATA_TYPE_F16, {1000, 500}, 0, 9),
      Request(v1::DATA_TYPE_BF16, {100000}, 0, 100000),
      Request(v1::DATA_TYPE_U32, {1000, 300}, 1, 30),
      Request(v1::DATA_TYPE_U8, {2 * kMiB}, 0, 5000),
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

Requests SomeRequests(Random& random) {
  Requests requests = LargeRequests(random);
  while (requests.size() < kCount) requests.push_back(RandomRequest(random));
  std::shuffle(requests.begin(), requests.end(), random);
  return requests;
}

std::string BytesOf(v1::TopKResponse response) {
  response.clear_execution();
  response.clear_request_id();
  for (v1::Tensor* tensor :
       {response.has_values() ? response.mutable_values() : nullptr,
        response.has_indices() ? response.mutable_indices() : nullptr}) {
    // Treat an absent source like one without bytes.
    if (tensor != nullptr) tensor->set_data(std::string(tensor->data()));
  }
  return response.SerializeAsString();
}

std::string Unary(ServerStubs& stubs, const v1::TopKRequest& request) {
  const CallResult asked = Ask(*stubs.topk, request);
  EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
  return BytesOf(asked.response);
}

// Sends the tensor in up to nine messages, which may split elements.
std::string Streamed(ServerStubs& stubs, const v1::TopKRequest& request) {
  const std::string& data = request.tensor().data();
  Random random(data.size());
  std::vector<size_t> cuts = {0, data.size()};
  for (int64_t i = Pick(random, 0, 8); i > 0; --i) {
    cuts.push_back(
        static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(cuts[1]))));
  }
  std::ranges::sort(cuts);
  grpc::ClientContext context;
  const auto stream = stubs.topk->StreamTopK(&context);
  v1::TopKRequestChunk chunk = HeaderOf(request);
  stream->Write(chunk);
  for (size_t i = 1; i < cuts.size(); ++i) {
    chunk.set_data(data.substr(cuts[i - 1], cuts[i] - cuts[i - 1]));
    stream->Write(chunk);
  }
  stream->WritesDone();
  v1::TopKResponse response;
  v1::TopKResponseChunk piece;
  while (stream->Read(&piece)) {
    if (piece.has_header()) response = piece.header();
    if (piece.has_values()) {
      *response.mutable_values()->mutable_data() += piece.values();
    } else if (piece.has_indices()) {
      *response.mutable_indices()->mutable_data() += piece.indices();
    }
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return BytesOf(response);
}

// Puts the tensor and both outputs into shared memory at odd offsets.
std::string Shared(ServerStubs& stubs, const v1::TopKRequest& plain) {
  constexpr size_t kRoom = 5 * kMiB + 3;
  v1::TopKRequest request =
      InMemory(plain, plain.tensor().data().size() % 13, stubs.memory);
  const auto selection = plain.output().selection();
  if (selection != v1::OUTPUT_SELECTION_INDICES_ONLY) {
    *request.mutable_output()->mutable_values() =
        stubs.memory.Region(kRoom, kRoom);
  }
  if (selection != v1::OUTPUT_SELECTION_VALUES_ONLY) {
    *request.mutable_output()->mutable_indices() =
        stubs.memory.Region(2 * kRoom, kRoom);
  }
  CallResult asked = Ask(*stubs.topk, request);
  EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
  const auto fetch = [&](v1::Tensor& tensor) {
    EXPECT_TRUE(tensor.has_shared_memory());
    tensor.set_data(Bytes(stubs.memory, tensor.shared_memory()));
  };
  if (asked.response.has_values()) fetch(*asked.response.mutable_values());
  if (asked.response.has_indices()) fetch(*asked.response.mutable_indices());
  return BytesOf(asked.response);
}

std::string Inferred(ServerStubs& stubs, const v1::TopKRequest& request) {
  if (!IsExpressible(request)) return "";
  grpc::ClientContext context;
  ModelInferResponse answer;
  const grpc::Status status =
      stubs.oip->ModelInfer(&context, Translate(request), &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  v1::TopKResponse response;
  for (int i = 0; i < answer.outputs_size(); ++i) {
    const auto& output = answer.outputs(i);
    v1::Tensor& tensor = output.name() == "values"
                             ? *response.mutable_values()
                             : *response.mutable_indices();
    for (int type = 1; type <= v1::DATA_TYPE_U64; ++type) {
      const auto known = static_cast<v1::DataType>(type);
      if (NameOf(known) == output.datatype()) tensor.set_data_type(known);
    }
    *tensor.mutable_shape() = output.shape();
    tensor.set_data(answer.raw_output_contents(i));
  }
  return BytesOf(response);
}

Answers Each(std::string (*ask)(ServerStubs&, const v1::TopKRequest&),
             ServerStubs& stubs, const Requests& requests) {
  Answers answers;
  for (const v1::TopKRequest& request : requests) {
    answers.push_back(ask(stubs, request));
    if (::testing::Test::HasFailure()) break;
  }
  return answers;
}

Answers Many(ServerStubs& stubs, const Requests& requests) {
  Answers answers;
  for (const auto& result : ComputeMany(stubs.client, requests)) {
    EXPECT_TRUE(result.ok()) << result.status().message;
    answers.push_back(result.ok() ? BytesOf(*result) : "");
  }
  return answers;
}

struct CallKind {
  const char* name;
  std::function<Answers(ServerStubs&, const Requests&)> call;
};

const CallKind kCallKinds[] = {
    {"ComputeTopK", std::bind_front(Each, Unary)},
    {"StreamTopK", std::bind_front(Each, Streamed)},
    {"ComputeTopKMany", Many},
    {"shared memory", std::bind_front(Each, Shared)},
    {"ModelInfer", std::bind_front(Each, Inferred)},
};

// Sends the requests to a server with all kinds of calls.
void ExpectAnswers(const std::string& set, int threads,
                   const Requests& requests, const Answers& oracle) {
  // topkd inherits the variable.
  setenv(kInstructionSetVariable, set.c_str(), 1);
  const Topkd topkd({"--threads", StrCat(threads), "--pollers", StrCat(threads),
                     "--allow-shared-memory"});
  unsetenv(kInstructionSetVariable);
  SharedMemory memory = Make(Name("all"), size_t{16} * kMiB);
  const Client client({.target = topkd.target()});
  std::deque<ServerStubs> stubs;
  for (size_t i = 0; i < std::size(kCallKinds); ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        topkd.target(), grpc::InsecureChannelCredentials(), arguments);
    // gRPC 1.51 may report another call's errno for its connect().
    ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                          std::chrono::seconds(20)));
    stubs.push_back({v1::TopKService::NewStub(channel),
                     GRPCInferenceService::NewStub(channel), client, memory});
  }
  EXPECT_EQ(Ask(*stubs.front().topk, requests.front())
                .response.execution()
                .instruction_set(),
            set);
  // All calls run concurrently, so that they share the workers.
  std::vector<std::future<Answers>> asked;
  for (size_t w = 0; w < stubs.size(); ++w) {
    asked.push_back(std::async(std::launch::async, kCallKinds[w].call,
                               std::ref(stubs[w]), std::cref(requests)));
  }
  for (size_t w = 0; w < asked.size(); ++w) {
    const CallKind& kind = kCallKinds[w];
    const Answers answers = asked[w].get();
    ASSERT_EQ(answers.size(), requests.size()) << kind.name;
    Answers expected = oracle;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (answers[i].empty()) expected[i].clear();
    }
    std::printf("%-7s %2d threads  %-15s %4td answers\n", set.c_str(), threads,
                kind.name,
                std::ranges::count_if(answers, [](const auto& answer) {
                  return !answer.empty();
                }));
    if (answers == expected) continue;
    const auto at = std::ranges::mismatch(answers, expected).in1;
    const auto i = static_cast<size_t>(at - answers.begin());
    FAIL() << set << ", " << threads << " threads, " << kind.name << ": answer "
           << i << " is not the oracle's, to\n"
           << requests[i].ShortDebugString().substr(0, 2000);
  }
}

TEST(Determinism, AThousandResultsAreTheOracles) {
  Random random(Seed(20261121));
  const Requests requests = SomeRequests(random);
  Answers oracle;
  for (const v1::TopKRequest& request : requests) {
    oracle.push_back(BytesOf(Oracle(request)));
  }
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    for (const int threads : {1, 2, 4, 16}) {
      ExpectAnswers(std::string(set.name), threads, requests, oracle);
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

}  // namespace
}  // namespace topk::testing
