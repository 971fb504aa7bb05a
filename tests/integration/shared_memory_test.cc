// Tensors and results in POSIX shared memory.
#include "tests/integration/shared_memory.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "tests/support/client_calls.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

TEST_F(SharedMemoryTest, WritesOutputsToTheirRegions) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 20000);
  std::ranges::fill(memory.data(), std::byte{0x55});
  const SharedMemory other = Make(Name("y"), 960);
  v1::TopKRequest request = InMemory(plain, 1, memory);
  v1::OutputOptions& output = *request.mutable_output();
  const auto expect_outputs = [&](const SharedMemory& of_indices) {
    const v1::TopKResponse answer = Answer(request);
    const v1::SharedMemoryRegion& values = answer.values().shared_memory();
    EXPECT_EQ(values.name(), memory.name());
    EXPECT_EQ(values.offset(), output.values().offset());
    EXPECT_EQ(values.byte_size(), 480);
    EXPECT_EQ(Bytes(memory, values), expected.values().data());
    EXPECT_EQ(Bytes(of_indices, answer.indices().shared_memory()),
              expected.indices().data());
  };
  *output.mutable_values() = memory.Region(9001, 1000);
  *output.mutable_indices() = memory.Region(8041, 960);
  expect_outputs(memory);
  EXPECT_EQ(memory.data()[8040], std::byte{0x55});
  EXPECT_EQ(memory.data()[9481], std::byte{0x55});
  // Values may overwrite the tensor. Indices may be in another object.
  *output.mutable_values() = memory.Region(1, 480);
  *output.mutable_indices() = other.Region(0, 960);
  expect_outputs(other);
}

TEST_F(SharedMemoryTest, ServesStreams) {
  const Client client({.target = server_.target()});
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {300000}, 0, 9);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 2000000);
  v1::TopKRequest request = InMemory(plain, 5, memory);
  v1::TopKRequest wrong = request;
  wrong.mutable_tensor()->mutable_shared_memory()->set_byte_size(-1);
  v1::TopKRequest away = request;
  *away.mutable_output()->mutable_values() = memory.Region(1900000, 36);
  const auto results = ComputeMany(client, {request, wrong, away, plain});
  ASSERT_EQ(results.size(), 4u);
  for (const size_t i : {0, 3}) {
    ASSERT_TRUE(results[i].ok()) << results[i].status().message;
    EXPECT_EQ(Comparable(*results[i]), Comparable(expected));
  }
  EXPECT_EQ(results[1].status().reason, "SHARED_MEMORY_RANGE");
  ASSERT_TRUE(results[2].ok());
  EXPECT_EQ(Bytes(memory, results[2]->values().shared_memory()),
            expected.values().data());

  v1::TopKRequest header = plain;
  header.mutable_tensor()->clear_source();
  *header.mutable_output()->mutable_values() = memory.Region(1900000, 36);
  *header.mutable_output()->mutable_indices() = memory.Region(1900036, 72);
  const auto streamed = ComputeStream(
      client, header, std::as_bytes(std::span(plain.tensor().data())));
  ASSERT_TRUE(streamed.ok()) << streamed.status().message;
  EXPECT_EQ(Bytes(memory, streamed->indices().shared_memory()),
            expected.indices().data());
  header.mutable_output()->mutable_values()->set_name("/topk-test-absent");
  EXPECT_EQ(ComputeStream(client, header, {}).status().field,
            "output.values.name");
  EXPECT_EQ(ComputeStream(client, request, {}).status().reason,
            "HEADER_HAS_DATA");
}

// Returns the memory that an object uses.
int64_t AllocatedBytes(const std::string& name) {
  struct stat info {};
  EXPECT_EQ(stat(("/dev/shm" + name).c_str(), &info), 0);
  return info.st_blocks * 512;
}

TEST_F(SharedMemoryTest, ReadsUnwrittenPartsAsZerosThatTakeNoMemory) {
  constexpr int64_t kBytes = int64_t{80} << 20;
  // Resize() instead of Make() leaves the object sparse.
  const SharedMemory memory = Make(Name("x"), 1);
  Resize(memory.name(), kBytes);
  std::fstream file("/dev/shm" + memory.name(), std::ios::in | std::ios::out);
  file.seekp(kBytes / 2);
  file.put('\7').flush();
  const int64_t allocated = AllocatedBytes(memory.name());
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_U8, {kBytes}, 3);
  *request.mutable_tensor()->mutable_shared_memory() = memory.Region(0, kBytes);
  const v1::TopKResponse response = Answer(request);
  EXPECT_EQ(response.values().data(), std::string("\7\0\0", 3));
  std::vector<int64_t> indices(3);
  ASSERT_EQ(response.indices().data().size(), 24u);
  std::memcpy(indices.data(), response.indices().data().data(), 24);
  EXPECT_EQ(indices, (std::vector<int64_t>{kBytes / 2, 0, 1}));
  EXPECT_EQ(AllocatedBytes(memory.name()), allocated);
}

TEST_F(SharedMemoryTest, ChargesTheCopyOfSparseTensors) {
  ServerConfig config = SharedMemoryConfig();
  // Small, because /dev/shm has only 64 MiB in a container.
  config.max_inflight_bytes = int64_t{16} << 20;
  const TestServer server(config);
  constexpr int64_t kBytes = int64_t{20} << 20;
  SharedMemory memory = Make(Name("x"), kBytes);
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_U8, {kBytes}, 3);
  *request.mutable_tensor()->mutable_shared_memory() = memory.Region(0, kBytes);
  Resize(memory.name(), 0);
  Resize(memory.name(), kBytes);
  EXPECT_EQ(Ask(*server.Stub(), request).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  std::ranges::fill(memory.data(), std::byte{1});
  EXPECT_TRUE(Ask(*server.Stub(), request).status.ok());
}

TEST_F(SharedMemoryTest, FollowsReplacedObjects) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_I32, {4000}, 0, 9);
  v1::TopKRequest changed = plain;
  std::string& data = *changed.mutable_tensor()->mutable_data();
  std::reverse(data.begin(), data.end());
  const auto expect_same = [this](const v1::TopKRequest& in_memory,
                                  const v1::TopKRequest& in_message) {
    EXPECT_EQ(Comparable(Answer(in_memory)), Comparable(Answer(in_message)));
  };
  const std::string name = Name("x");
  {
    SharedMemory memory = Make(name, 16000);
    expect_same(InMemory(plain, 0, memory), plain);
    expect_same(InMemory(changed, 0, memory), changed);
    InMemory(plain, 0, memory);
  }
  // Unlinked and created again.
  SharedMemory memory = Make(name, 16000);
  expect_same(InMemory(changed, 0, memory), changed);
  // Another object gets the name while the first object keeps a second name.
  SharedMemory other = Make(Name("y"), 16000);
  v1::TopKRequest request = InMemory(plain, 0, other);
  const std::string path = "/dev/shm" + name;
  const std::string kept = "/dev/shm" + Name("kept");
  ASSERT_EQ(link(path.c_str(), kept.c_str()), 0);
  ASSERT_EQ(rename(("/dev/shm" + other.name()).c_str(), path.c_str()), 0);
  request.mutable_tensor()->mutable_shared_memory()->set_name(name);
  expect_same(request, plain);
  unlink(kept.c_str());
}

TEST_F(SharedMemoryTest, AnObjectMayGrowAndShrinkBetweenRequests) {
  const v1::TopKRequest small = Request(v1::DATA_TYPE_I64, {1000}, 0, 9);
  const v1::TopKRequest large = Request(v1::DATA_TYPE_I64, {9000}, 0, 9);
  SharedMemory memory = Make(Name("x"), 72000);
  Resize(memory.name(), 8000);
  EXPECT_EQ(Comparable(Answer(InMemory(small, 0, memory))),
            Comparable(Answer(small)));
  Resize(memory.name(), 72000);
  const v1::TopKRequest in_large = InMemory(large, 0, memory);
  EXPECT_EQ(Comparable(Answer(in_large)), Comparable(Answer(large)));
  Resize(memory.name(), 8000);
  ExpectRefused(in_large, grpc::StatusCode::INVALID_ARGUMENT,
                "SHARED_MEMORY_RANGE", "tensor.shared_memory.byte_size");
}

TEST_F(SharedMemoryTest, ManyRequestsMayShareAnObject) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F16, {100000}, 0, 30);
  const std::string expected = Comparable(Answer(plain));
  SharedMemory memory = Make(Name("x"), 200000);
  const v1::TopKRequest request = InMemory(plain, 0, memory);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(Comparable(Answer(request)), expected);
      }
    });
  }
}

}  // namespace
}  // namespace topk::testing
