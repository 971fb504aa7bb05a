// All kinds of calls, instruction sets and thread counts return the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/backends/registry.h"
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

std::string BytesOf(Result<v1::TopKResponse> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message;
    return "";
  }
  result->clear_request_id();
  for (v1::Tensor* tensor :
       {result->has_values() ? result->mutable_values() : nullptr,
        result->has_indices() ? result->mutable_indices() : nullptr}) {
    // Treat an absent source like one without bytes.
    if (tensor != nullptr) tensor->set_data(std::string(tensor->data()));
  }
  return Comparable(*result);
}

std::string Streamed(const Client& client, const v1::TopKRequest& request) {
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  return BytesOf(ComputeStream(
      client, header, std::as_bytes(std::span(request.tensor().data()))));
}

// Puts the tensor and both outputs into shared memory at odd offsets.
std::string Shared(const Client& client, const v1::TopKRequest& plain,
                   SharedMemory& memory) {
  constexpr size_t kRoom = 5 * kMiB + 3;
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
  if (!result.ok()) return BytesOf(result);
  const auto fetch = [&](v1::Tensor& tensor) {
    EXPECT_TRUE(tensor.has_shared_memory());
    tensor.set_data(Bytes(memory, tensor.shared_memory()));
  };
  if (result->has_values()) fetch(*result->mutable_values());
  if (result->has_indices()) fetch(*result->mutable_indices());
  return BytesOf(result);
}

std::string Inferred(GRPCInferenceService::Stub& stub,
                     const v1::TopKRequest& request) {
  if (!IsExpressible(request)) return "";
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  ModelInferResponse answer;
  const grpc::Status status =
      stub.ModelInfer(&context, Translate(request), &answer);
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

// Sends the requests to a server with all kinds of calls.
void ExpectAnswers(const std::string& set, int threads,
                   const Requests& requests, const Answers& oracle) {
  // topkd inherits the variable.
  setenv(kInstructionSetVariable, set.c_str(), 1);
  const Topkd topkd({"--threads", StrCat(threads), "--pollers", StrCat(threads),
                     "--allow-shared-memory"});
  unsetenv(kInstructionSetVariable);
  SharedMemory memory = Make(Name("all"), size_t{16} * kMiB);
  std::deque<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(ClientOptions{.target = topkd.target(),
                                       .channel_arguments = OwnConnection()});
  }
  const auto oip = GRPCInferenceService::NewStub(ConnectTo(topkd.target()));
  EXPECT_EQ(
      ComputeUnary(clients[0], requests.front())->execution().instruction_set(),
      set);
  const auto each = [&](auto ask) {
    return [&, ask] {
      Answers answers;
      for (const v1::TopKRequest& request : requests) {
        answers.push_back(ask(request));
        if (::testing::Test::HasFailure()) break;
      }
      return answers;
    };
  };
  using R = v1::TopKRequest;
  const std::pair<const char*, std::function<Answers()>> kinds[] = {
      {"ComputeTopK", each([&](const R& request) {
         return BytesOf(ComputeUnary(clients[0], request));
       })},
      {"StreamTopK",
       each([&](const R& request) { return Streamed(clients[1], request); })},
      {"ComputeTopKMany",
       [&] {
         Answers answers;
         for (const auto& result : ComputeMany(clients[2], requests)) {
           answers.push_back(BytesOf(result));
         }
         return answers;
       }},
      {"shared memory", each([&](const R& request) {
         return Shared(clients[3], request, memory);
       })},
      {"ModelInfer",
       each([&](const R& request) { return Inferred(*oip, request); })},
  };
  // All calls run concurrently, so that they share the workers.
  std::vector<std::future<Answers>> asked;
  for (const auto& [name, call] : kinds) {
    asked.push_back(std::async(std::launch::async, call));
  }
  for (size_t w = 0; w < asked.size(); ++w) {
    const char* const name = kinds[w].first;
    const Answers answers = asked[w].get();
    ASSERT_EQ(answers.size(), requests.size()) << name;
    Answers expected = oracle;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (answers[i].empty()) expected[i].clear();
    }
    const auto absent = std::ranges::count(answers, "");
    EXPECT_LT(absent, name == std::string("ModelInfer") ? kCount / 2 : 1);
    if (answers == expected) continue;
    const auto at = std::ranges::mismatch(answers, expected).in1;
    const auto i = static_cast<size_t>(at - answers.begin());
    FAIL() << set << ", " << threads << " threads, " << name << ": answer " << i
           << " is not the oracle's, to\n"
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
