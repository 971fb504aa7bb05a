// Shared memory registered by clients of the Open Inference Protocol.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/oip/regions.h"
#include "tests/integration/oip.h"
#include "tests/integration/rpc_status.h"
#include "tests/integration/secured.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(Oip, ReadsInputsAndWritesOutputsInSharedMemory) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 20000);
  Write(plain.tensor().data(), 100, memory);
  ASSERT_TRUE(Register("all", memory).ok());
  EXPECT_EQ(Register("all", memory).error_message(),
            "shared memory region 'all' already in manager");
  ModelInferRequest request = Translate(plain);
  request.clear_raw_input_contents();
  SetRegion("all", 100, 8000, *request.mutable_inputs(0)->mutable_parameters());
  ExpectSame(Infer(request), expected);
  // With the tensor in shared memory, K comes first in the raw contents.
  ModelInferRequest with_k = request;
  with_k.mutable_parameters()->erase("k");
  AddK(with_k, "INT64", std::string("\3\0\0\0\0\0\0\0", 8));
  ExpectSame(Infer(with_k), expected);

  request.add_outputs()->set_name("values");
  request.add_outputs()->set_name("indices");
  auto& output = *request.mutable_outputs(0)->mutable_parameters();
  SetRegion("all", 9000, 1000, output);
  const ModelInferResponse answer = Infer(request);
  ASSERT_EQ(answer.raw_output_contents_size(), 2);
  EXPECT_EQ(answer.raw_output_contents(0), "");
  EXPECT_EQ(answer.raw_output_contents(1), expected.indices().data());
  const auto& parameters = answer.outputs(0).parameters();
  EXPECT_EQ(parameters.at("shared_memory_region").string_param(), "all");
  EXPECT_EQ(parameters.at("shared_memory_offset").int64_param(), 9000);
  EXPECT_EQ(parameters.at("shared_memory_byte_size").int64_param(), 480);
  EXPECT_EQ(Bytes(memory, memory.Region(9000, 480)), expected.values().data());

  const auto expect_refusal =
      [&](const ModelInferRequest& wrong, grpc::StatusCode code,
          const std::string& text, const std::string& field) {
        ModelInferResponse none;
        const grpc::Status status = Infer(wrong, none);
        EXPECT_EQ(status.error_code(), code);
        EXPECT_THAT(status.error_message(), HasSubstr(text));
        EXPECT_EQ(DetailsOf(status).info.metadata().at("field"), field);
      };
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  ModelInferRequest short_input = request;
  SetRegion("all", 100, 7999,
            *short_input.mutable_inputs(0)->mutable_parameters());
  expect_refusal(short_input, kInvalid, "7999", "inputs[X].parameters");
  SetRegion("all", 0, 479, output);
  expect_refusal(request, kInvalid,
                 "byte_size 479 is less than the output's 480 bytes",
                 "outputs.parameters");
  SetRegion("all", 19000, 1001, output);
  expect_refusal(request, kInvalid,
                 "Invalid offset + byte size for shared memory region: 'all'",
                 "outputs.parameters");
  SetRegion("none", 0, 1, output);
  expect_refusal(request, grpc::StatusCode::NOT_FOUND,
                 "Unable to find shared memory region: 'none'",
                 "outputs.parameters");
  output.erase("shared_memory_byte_size");
  expect_refusal(request, kInvalid, "shared_memory_byte_size is required",
                 "outputs.parameters");
}

// A client with a token, and its regions.
class TokenHolder {
 public:
  TokenHolder(const TestServer& server, std::string token)
      : oip_(GRPCInferenceService::NewStub(server.Connect())),
        token_(std::move(token)) {}

  grpc::Status Register(const std::string& name, const SharedMemory& memory) {
    return testing::Register(*oip_, name, memory.name(), memory.data().size(),
                             0, Context());
  }
  grpc::Status Unregister(const std::string& name) {
    inference::SystemSharedMemoryUnregisterRequest request;
    request.set_name(name);
    inference::SystemSharedMemoryUnregisterResponse response;
    return oip_->SystemSharedMemoryUnregister(Context().get(), request,
                                              &response);
  }
  // Returns the names of all regions, or `name` if it is that of a region.
  std::vector<std::string> Names(const std::string& name = "") {
    inference::SystemSharedMemoryStatusRequest request;
    request.set_name(name);
    inference::SystemSharedMemoryStatusResponse response;
    const grpc::Status status =
        oip_->SystemSharedMemoryStatus(Context().get(), request, &response);
    EXPECT_TRUE(status.ok() || !name.empty()) << status.error_message();
    std::vector<std::string> names;
    for (const auto& [found, _] : response.regions()) names.push_back(found);
    std::ranges::sort(names);
    return names;
  }

 private:
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer " + token_);
    return context;
  }

  const std::unique_ptr<GRPCInferenceService::Stub> oip_;
  const std::string token_;
};

using OipRegions = Secured;

TEST_F(OipRegions, BelongToTheClientThatRegisteredThem) {
  ServerConfig config = SharedMemoryConfig();
  config.security.auth_tokens_file = File("tokens");
  const TestServer server(config);
  TokenHolder alice(server, kAliceToken);
  TokenHolder bob(server, kBobToken);
  const SharedMemory memory = Make(Name("x"), 100);
  ASSERT_TRUE(alice.Register("a", memory).ok());
  ASSERT_TRUE(alice.Register("b", memory).ok());
  ASSERT_TRUE(bob.Register("c", memory).ok());
  EXPECT_EQ(bob.Register("a", memory).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  const grpc::Status refused = bob.Unregister("a");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(DetailsOf(refused).info.reason(), "SHARED_MEMORY_REGION");
  EXPECT_TRUE(bob.Unregister("none").ok());
  EXPECT_TRUE(bob.Unregister("").ok());
  EXPECT_THAT(alice.Names(), ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(alice.Names("b"), ::testing::ElementsAre("b"));
  EXPECT_TRUE(alice.Unregister("b").ok());
  EXPECT_TRUE(alice.Names("b").empty());
  EXPECT_THAT(bob.Names(), ::testing::ElementsAre("a"));
  EXPECT_TRUE(alice.Unregister("").ok());
  EXPECT_TRUE(bob.Names().empty());
}

TEST_F(Oip, NamesTheFieldOfAWrongRegistration) {
  const SharedMemory memory = Make(Name("fields"), 8);
  const auto field_of = [this](const std::string& key, uint64_t offset,
                               uint64_t bytes) {
    return DetailsOf(testing::Register(*oip_, "c", key, bytes, offset))
        .bad_request.field_violations(0)
        .field();
  };
  EXPECT_EQ(field_of("no slash", 0, 8), "key");
  EXPECT_EQ(testing::Register(*oip_, "c", "/other", 8).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(field_of(memory.name(), 9, 0), "offset");
  EXPECT_EQ(field_of(memory.name(), 0, 9), "byte_size");
}

TEST(OipSharedMemory, IsRejectedUnlessAllowed) {
  const TestServer server;
  const auto stub = GRPCInferenceService::NewStub(server.Connect());
  const grpc::Status status = Register(*stub, "a", "/topk-a", 0);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--allow-shared-memory"));
}

}  // namespace
}  // namespace topk::testing
