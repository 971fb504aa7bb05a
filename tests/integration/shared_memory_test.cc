// Tensors and results in POSIX shared memory.
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "server/transport/addresses.h"
#include "tests/integration/oip.h"
#include "tests/support/client_calls.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using Clock = std::chrono::steady_clock;

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

  v1::TopKRequest header = HeaderOf(plain).header();
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

TEST_F(SharedMemoryTest, ReportsInvalidRegions) {
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  constexpr auto kDenied = grpc::StatusCode::PERMISSION_DENIED;
  SharedMemory memory = Make(Name("x"), 16);
  const v1::TopKRequest right =
      InMemory(Request(v1::DATA_TYPE_F32, {4}, 0, 2), 0, memory);
  const std::string tensor = "tensor.shared_memory";

  const auto with_name = [&](const std::string& name) {
    v1::TopKRequest request = right;
    request.mutable_tensor()->mutable_shared_memory()->set_name(name);
    return request;
  };
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("topk"),
        std::string("/topk/x"), std::string("//topk"),
        memory.name() + std::string(1, '\0'),
        "/topk" + std::string(300, 'x')}) {
    ExpectRefused(with_name(name), kInvalid, "SHARED_MEMORY_NAME",
                  tensor + ".name");
  }
  ExpectRefused(with_name("/topk-other"), kDenied, "SHARED_MEMORY_PREFIX",
                tensor + ".name");
  ExpectRefused(with_name(Name("absent")), kInvalid, "SHARED_MEMORY_NOT_FOUND",
                tensor + ".name");

  const auto with_range = [&](int64_t offset, int64_t bytes) {
    v1::TopKRequest request = right;
    request.mutable_tensor()->mutable_shared_memory()->set_offset(offset);
    request.mutable_tensor()->mutable_shared_memory()->set_byte_size(bytes);
    return request;
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::pair<v1::TopKRequest, const char*> ranges[] = {
      {with_range(-1, 16), ".offset"},      {with_range(17, 0), ".offset"},
      {with_range(kMax, kMax), ".offset"},  {with_range(0, -1), ".byte_size"},
      {with_range(0, 17), ".byte_size"},    {with_range(1, 16), ".byte_size"},
      {with_range(16, kMax), ".byte_size"},
  };
  for (const auto& [request, field] : ranges) {
    ExpectRefused(request, kInvalid, "SHARED_MEMORY_RANGE", tensor + field);
  }
  ExpectRefused(with_range(0, 12), kInvalid, "DATA_LENGTH",
                tensor + ".byte_size");

  v1::TopKRequest request = right;
  v1::OutputOptions& output = *request.mutable_output();
  *output.mutable_values() = memory.Region(0, 7);
  ExpectRefused(request, kInvalid, "SHARED_MEMORY_TOO_SMALL",
                "output.values.byte_size");
  {  // A stream is refused before it sends the tensor.
    v1::TopKRequest streamed = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
    *streamed.mutable_output() = output;
    StreamCall call(server_.target());
    ASSERT_TRUE(call->Write(HeaderOf(streamed)));
    EXPECT_EQ(DetailsOf(call->Finish()).info.reason(),
              "SHARED_MEMORY_TOO_SMALL");
  }
  output.mutable_values()->set_byte_size(17);
  ExpectRefused(request, kInvalid, "SHARED_MEMORY_RANGE",
                "output.values.byte_size");
  output.clear_values();
  *output.mutable_indices() = memory.Region(0, 15);
  ExpectRefused(request, kInvalid, "SHARED_MEMORY_TOO_SMALL",
                "output.indices.byte_size");
  output.mutable_indices()->set_name("/elsewhere");
  ExpectRefused(request, kDenied, "SHARED_MEMORY_PREFIX",
                "output.indices.name");
  const SharedMemory room = Make(Name("room"), 32);
  for (const auto& [values, indices] : {std::pair{0, 7}, std::pair{15, 0}}) {
    *output.mutable_values() = room.Region(values, 8);
    *output.mutable_indices() = room.Region(indices, 16);  // one byte too short
    ExpectRefused(request, kInvalid, "SHARED_MEMORY_OVERLAP", "output.indices");
  }
  const std::string link = Name("link");
  ASSERT_EQ(::link(StrCat("/dev/shm", room.name()).c_str(),
                   StrCat("/dev/shm", link).c_str()),
            0);
  output.mutable_indices()->set_name(link);
  ExpectRefused(request, kInvalid, "SHARED_MEMORY_OVERLAP", "output.indices");
  ::unlink(StrCat("/dev/shm", link).c_str());
  output.clear_values();
  output.set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
  ExpectRefused(request, kInvalid, "OUTPUT_NOT_SELECTED", "output.indices");
  v1::TopKRequest k = right;
  *k.mutable_onnx()->mutable_k()->mutable_tensor()->mutable_shared_memory() =
      memory.Region(0, 8);
  k.mutable_onnx()->mutable_k()->mutable_tensor()->set_data_type(
      v1::DATA_TYPE_I64);
  k.mutable_onnx()->mutable_k()->mutable_tensor()->add_shape(1);
  ExpectRefused(k, grpc::StatusCode::UNIMPLEMENTED, "SHARED_MEMORY_NOT_ALLOWED",
                "onnx.k.tensor.shared_memory");
}

TEST_F(SharedMemoryTest, AcceptsRegularFilesOnly) {
  const std::string other = Name("other");
  const std::string path = "/dev/shm" + other;
  v1::TopKRequest request = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
  v1::SharedMemoryRegion& region =
      *request.mutable_tensor()->mutable_shared_memory();
  region.set_name(other);
  region.set_byte_size(16);
  const auto refused = [&](const char* reason) {
    ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT, reason,
                  "tensor.shared_memory.name");
    unlink(path.c_str());
  };
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  refused("SHARED_MEMORY_NAME");
  ASSERT_EQ(symlink("/etc/passwd", path.c_str()), 0);
  refused("SHARED_MEMORY_NOT_FOUND");
}

TEST_F(SharedMemoryTest, IsRejectedUnlessAllowed) {
  const TestServer server;
  SharedMemory memory = Make(Name("x"), 64);
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
  v1::TopKRequest values = plain;
  *values.mutable_output()->mutable_values() = memory.Region(0, 64);
  v1::TopKRequest indices = plain;
  *indices.mutable_output()->mutable_indices() = memory.Region(0, 64);
  const std::pair<v1::TopKRequest, const char*> requests[] = {
      {InMemory(plain, 0, memory), "tensor.shared_memory"},
      {values, "output.values"},
      {indices, "output.indices"},
  };
  for (const auto& [request, field] : requests) {
    const CallResult asked = Ask(server, request);
    EXPECT_EQ(asked.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(asked.reason(), "SHARED_MEMORY_NOT_ALLOWED");
    EXPECT_EQ(asked.field(), field);
  }
}

// Returns an IPv4 address of this machine other than 127.0.0.1, or "".
std::string OwnAddress() {
  std::string own;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return own;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
        (each->ifa_flags & IFF_LOOPBACK) == 0) {
      own = AddressOf(*each->ifa_addr);
    }
  }
  freeifaddrs(all);
  return own;
}

TEST_F(SharedMemoryTest, IsRejectedForRemoteCallers) {
  const std::string own = OwnAddress();
  if (own.empty()) GTEST_SKIP() << "this machine has no network";
  ServerConfig config = SharedMemoryConfig();
  config.listen = {own + ":0"};
  const TestServer server(config);
  SharedMemory memory = Make(Name("x"), 64);
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
  v1::TopKRequest output = plain;
  *output.mutable_output()->mutable_values() = memory.Region(0, 64);
  for (const v1::TopKRequest& request : {InMemory(plain, 0, memory), output}) {
    const CallResult asked = Ask(server, request);
    EXPECT_EQ(asked.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(asked.reason(), "SHARED_MEMORY_REMOTE");
  }
  const auto oip = GRPCInferenceService::NewStub(server.Connect());
  EXPECT_EQ(DetailsOf(Register(*oip, "a", memory.name(), 64)).info.reason(),
            "SHARED_MEMORY_REMOTE");
}

TEST_F(SharedMemoryTest, ReportsTruncationDuringARequest) {
#ifdef TOPK_TSAN
  GTEST_SKIP() << "what is truncated while it is read is a race";
#endif
  for (const int64_t axis : {0, 1}) {
    const v1::TopKRequest plain =
        Request(v1::DATA_TYPE_F32, {2000, 2000}, axis, 40);
    const std::string expected = Comparable(Answer(plain));
    const std::string& data = plain.tensor().data();
    Clock::duration usual{};
    int changed = 0;
    for (int round = 0; round < 24; ++round) {
      SharedMemory memory = Make(Name("x"), data.size());
      const v1::TopKRequest request = InMemory(plain, 0, memory);
      const Clock::time_point start = Clock::now();
      if (round == 0) {
        EXPECT_EQ(Comparable(Answer(request)), expected);
        usual = Clock::now() - start;
        continue;
      }
      std::jthread truncating([&] {  // at moments spread over the request
        const Clock::time_point due = start + usual * round / 24;
        while (Clock::now() < due) std::this_thread::yield();
        Resize(memory.name(), data.size() * static_cast<size_t>(round) / 30);
      });
      const CallResult asked = Ask(*stub_, request);
      if (asked.status.ok()) {
        EXPECT_EQ(Comparable(asked.response), expected);
      } else if (asked.reason() == "SHARED_MEMORY_CHANGED") {
        EXPECT_EQ(asked.status.error_code(),
                  grpc::StatusCode::FAILED_PRECONDITION);
        ++changed;
      } else {  // truncated before the request arrived
        EXPECT_EQ(asked.reason(), "SHARED_MEMORY_RANGE");
      }
    }
    EXPECT_GT(changed, 0);
  }
}

}  // namespace
}  // namespace topk::testing
