// Shared memory registered by clients of the Open Inference Protocol.
#include <algorithm>
#include <string>

#include "server/oip/regions.h"
#include "tests/integration/oip.h"

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

TEST(OipRegions, BelongToTheClientThatRegisteredThem) {
  SharedObjects objects("/topk-test");
  Regions regions(&objects, nullptr);
  Caller alice;
  alice.is_local = true;
  alice.key = "alice";
  Caller bob = alice;
  bob.key = "bob";
  const SharedMemory memory = Make(Name("x"), 100);
  const auto registered = [&](const char* name, const Caller& caller) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(memory.name());
    request.set_byte_size(100);
    return regions.Register(request, caller).code;
  };
  const auto names = [&](const char* name) {
    inference::SystemSharedMemoryStatusResponse response;
    EXPECT_EQ(regions.List(name, response).ok(), response.regions_size() > 0);
    std::string found;
    for (const auto& [each, _] : response.regions()) found += each;
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(registered("a", alice), Code::kOk);
  EXPECT_EQ(registered("b", alice), Code::kOk);
  EXPECT_EQ(registered("c", bob), Code::kOk);
  EXPECT_EQ(registered("a", bob), Code::kAlreadyExists);
  EXPECT_EQ(regions.UnregisterShared("a", bob).code, Code::kPermissionDenied);
  EXPECT_TRUE(regions.UnregisterShared("none", bob).ok());
  EXPECT_EQ(names(""), "abc");
  EXPECT_TRUE(regions.UnregisterShared("", bob).ok());
  EXPECT_EQ(names(""), "ab");
  EXPECT_EQ(names("b"), "b");
  EXPECT_TRUE(regions.UnregisterShared("b", alice).ok());
  EXPECT_EQ(names("b"), "");
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
