// Tensors and answers in POSIX shared memory, and clients that misuse it.
#include "client/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "client/topk_client.h"
#include "core/base/text.h"
#include "tests/integration/rpc_status.h"
#include "tests/support/generators.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using Clock = std::chrono::steady_clock;

ServerConfig Allowing(const std::string& prefix = "/topk") {
  ServerConfig config = TestServer::LoopbackConfig();
  config.allow_shared_memory = true;
  config.shared_memory_prefix = prefix;
  return config;
}

// A name of this process's and this test's own.
std::string Name(const std::string& what) {
  return Cat("/topk-test-", getpid(), "-",
             ::testing::UnitTest::GetInstance()->current_test_info()->name(),
             "-", what);
}

SharedMemory Make(const std::string& name, size_t bytes) {
  Result<SharedMemory> memory = SharedMemory::Create(name, bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message;
  return *std::move(memory);
}

void Write(std::string_view bytes, size_t offset, SharedMemory& memory) {
  std::ranges::copy(std::as_bytes(std::span(bytes)),
                    memory.data().begin() + static_cast<ptrdiff_t>(offset));
}

std::string Bytes(const SharedMemory& memory,
                  const v1::SharedMemoryRegion& region) {
  return {reinterpret_cast<const char*>(memory.data().data()) + region.offset(),
          static_cast<size_t>(region.byte_size())};
}

// Truncates, or grows, what has the name.
void Resize(const std::string& name, size_t bytes) {
  const int fd = shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  close(fd);
}

v1::TopKRequest Request(v1::DataType type, const std::vector<int64_t>& shape,
                        int64_t axis, int64_t k) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(24);
  request.mutable_onnx()->set_axis(axis);
  request.mutable_onnx()->mutable_k()->set_value(k);
  request.mutable_tensor()->set_data_type(type);
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Random random(7);
  request.mutable_tensor()->set_data(RandomData(random, type, count));
  return request;
}

// The request with its tensor's data moved to an offset of the memory.
v1::TopKRequest InMemory(v1::TopKRequest request, size_t offset,
                         SharedMemory& memory) {
  const std::string data = request.tensor().data();
  Write(data, offset, memory);
  *request.mutable_tensor()->mutable_shared_memory() =
      memory.Region(offset, data.size());
  return request;
}

std::string Comparable(v1::TopKResponse response) {
  response.clear_execution();
  return response.SerializeAsString();
}

struct Asked {
  grpc::Status status;
  v1::TopKResponse response;

  std::string reason() const { return DetailsOf(status).info.reason(); }
  std::string field() const {
    return DetailsOf(status).info.metadata().at("field");
  }
};

class SharedMemoryTest : public ::testing::Test {
 protected:
  Asked Ask(const v1::TopKRequest& request) {
    grpc::ClientContext context;
    Asked asked;
    asked.status = stub_->ComputeTopK(&context, request, &asked.response);
    return asked;
  }

  v1::TopKResponse Answer(const v1::TopKRequest& request) {
    Asked asked = Ask(request);
    EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
    return std::move(asked.response);
  }

  void ExpectRefused(const v1::TopKRequest& request, grpc::StatusCode code,
                     const std::string& reason, const std::string& field) {
    const Asked asked = Ask(request);
    EXPECT_EQ(asked.status.error_code(), code) << reason;
    ASSERT_FALSE(asked.status.ok());
    EXPECT_EQ(asked.reason(), reason) << asked.status.error_message();
    EXPECT_EQ(asked.field(), field) << asked.status.error_message();
  }

  const TestServer server_{Allowing()};
  const std::unique_ptr<v1::TopKService::Stub> stub_ = server_.Stub();
};

TEST_F(SharedMemoryTest, TheAnswerIsThatOfTheSameBytesInTheMessage) {
  const struct {
    v1::DataType type;
    std::vector<int64_t> shape;
    int64_t axis;
    int64_t k;
  } cases[] = {
      {v1::DATA_TYPE_F32, {70000}, 0, 100},
      {v1::DATA_TYPE_F32, {200, 300}, 1, 5},
      {v1::DATA_TYPE_F32, {200, 300}, 0, 5},
      {v1::DATA_TYPE_F64, {100, 30}, 0, 99},
      {v1::DATA_TYPE_I64, {3000}, 0, 2999},
      {v1::DATA_TYPE_U8, {3, 500, 7}, 1, 40},
      {v1::DATA_TYPE_BF16, {50, 60}, 1, 50},
      {v1::DATA_TYPE_I16, {0, 60}, 1, 50},
  };
  SharedMemory memory = Make(Name("x"), 400000);
  for (const auto& c : cases) {
    const v1::TopKRequest request = Request(c.type, c.shape, c.axis, c.k);
    const std::string expected = Comparable(Answer(request));
    for (const size_t offset : {0, 1, 3, 6, 4096, 5001}) {
      EXPECT_EQ(Comparable(Answer(InMemory(request, offset, memory))), expected)
          << static_cast<int>(c.type) << " at " << offset;
    }
  }
}

TEST_F(SharedMemoryTest, OutputsGoWhereTheyAreAsked) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 20000);
  std::ranges::fill(memory.data(), std::byte{0x55});
  v1::TopKRequest request = InMemory(plain, 1, memory);
  *request.mutable_output()->mutable_values() = memory.Region(9001, 1000);
  *request.mutable_output()->mutable_indices() = memory.Region(11003, 960);
  v1::TopKResponse answer = Answer(request);
  ASSERT_TRUE(answer.values().has_shared_memory());
  ASSERT_TRUE(answer.indices().has_shared_memory());
  EXPECT_EQ(answer.values().shared_memory().name(), memory.name());
  EXPECT_EQ(answer.values().shared_memory().offset(), 9001);
  EXPECT_EQ(answer.values().shared_memory().byte_size(), 480);
  EXPECT_EQ(Bytes(memory, answer.values().shared_memory()),
            expected.values().data());
  EXPECT_EQ(Bytes(memory, answer.indices().shared_memory()),
            expected.indices().data());
  EXPECT_EQ(memory.data()[9000], std::byte{0x55});
  EXPECT_EQ(memory.data()[9481], std::byte{0x55});
  // One of them alone, over the tensor itself.
  request.mutable_output()->clear_indices();
  *request.mutable_output()->mutable_values() = memory.Region(1, 480);
  answer = Answer(request);
  EXPECT_EQ(answer.indices().data(), expected.indices().data());
  EXPECT_EQ(Bytes(memory, answer.values().shared_memory()),
            expected.values().data());
}

TEST_F(SharedMemoryTest, StreamsTakeItToo) {
  const Client client({.target = server_.target()});
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {300000}, 0, 9);
  const v1::TopKResponse expected = Answer(plain);
  SharedMemory memory = Make(Name("x"), 2000000);
  v1::TopKRequest request = InMemory(plain, 5, memory);
  v1::TopKRequest wrong = request;
  wrong.mutable_tensor()->mutable_shared_memory()->set_byte_size(-1);
  v1::TopKRequest away = request;
  *away.mutable_output()->mutable_values() = memory.Region(1900000, 36);
  const auto results =
      client.ComputeTopKMany(std::vector{request, wrong, away, plain});
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
  const auto streamed = client.StreamTopK(
      header, std::as_bytes(std::span(plain.tensor().data())));
  ASSERT_TRUE(streamed.ok()) << streamed.status().message;
  EXPECT_EQ(Bytes(memory, streamed->indices().shared_memory()),
            expected.indices().data());
  header.mutable_output()->mutable_values()->set_name("/topk-test-absent");
  EXPECT_EQ(client.StreamTopK(header, {}).status().field, "output.values.name");
  EXPECT_EQ(client.StreamTopK(request, {}).status().reason, "HEADER_HAS_DATA");
}

TEST_F(SharedMemoryTest, ATensorMayBeLargerThanAnyMessage) {
  ServerConfig config = Allowing();
  config.max_message_bytes = 4096;
  const TestServer server(config);
  const Client client({.target = server.target()});
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_I32, {100000}, 0, 4);
  SharedMemory memory = Make(Name("x"), 400000);
  const auto answer = client.ComputeTopK(InMemory(plain, 0, memory));
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(Comparable(*answer), Comparable(Answer(plain)));
}

TEST_F(SharedMemoryTest, MistakesAreErrorsThatNameThem) {
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
  ExpectRefused(with_name("/other"), kDenied, "SHARED_MEMORY_PREFIX",
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
  *output.mutable_indices() = memory.Region(0, 16);
  *output.mutable_values() = memory.Region(8, 8);
  ExpectRefused(request, kInvalid, "SHARED_MEMORY_OVERLAP", "output.indices");
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

TEST_F(SharedMemoryTest, OnlyRegularFilesAreTaken) {
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

TEST_F(SharedMemoryTest, IsOffUnlessAllowed) {
  const TestServer server;
  const Client client({.target = server.target()});
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
    const Status status = client.ComputeTopK(request).status();
    EXPECT_EQ(status.code, Code::kUnimplemented);
    EXPECT_EQ(status.reason, "SHARED_MEMORY_NOT_ALLOWED");
    EXPECT_EQ(status.field, field);
  }
  EXPECT_FALSE(client.GetCapabilities()->limits().shared_memory());
  const Client allowed({.target = server_.target()});
  EXPECT_TRUE(allowed.GetCapabilities()->limits().shared_memory());
}

TEST_F(SharedMemoryTest, ThePrefixIsTheServers) {
  const std::string prefix = Name("mine");
  const TestServer server(Allowing(prefix));
  const Client client({.target = server.target()});
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
  SharedMemory mine = Make(prefix + "1", 16);
  SharedMemory other = Make(Name("other"), 16);
  EXPECT_TRUE(client.ComputeTopK(InMemory(plain, 0, mine)).ok());
  const Status status = client.ComputeTopK(InMemory(plain, 0, other)).status();
  EXPECT_EQ(status.code, Code::kPermissionDenied);
  EXPECT_EQ(status.reason, "SHARED_MEMORY_PREFIX");
}

TEST_F(SharedMemoryTest, ANameMeansWhatBearsItNow) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_I32, {4000}, 0, 9);
  v1::TopKRequest changed = plain;
  std::string& data = *changed.mutable_tensor()->mutable_data();
  std::reverse(data.begin(), data.end());
  const std::string name = Name("x");
  {
    SharedMemory memory = Make(name, 16000);
    const v1::TopKRequest request = InMemory(plain, 0, memory);
    EXPECT_EQ(Comparable(Answer(request)), Comparable(Answer(plain)));
    // Written anew.
    EXPECT_EQ(Comparable(Answer(InMemory(changed, 0, memory))),
              Comparable(Answer(changed)));
    InMemory(plain, 0, memory);
  }
  {  // unlinked, and made anew
    SharedMemory memory = Make(name, 16000);
    EXPECT_EQ(Comparable(Answer(InMemory(changed, 0, memory))),
              Comparable(Answer(changed)));
    // Another one in its place, while this one has a name too.
    SharedMemory other = Make(Name("y"), 16000);
    v1::TopKRequest request = InMemory(plain, 0, other);
    ASSERT_EQ(
        link(("/dev/shm" + name).c_str(), ("/dev/shm" + Name("kept")).c_str()),
        0);
    ASSERT_EQ(rename(("/dev/shm" + other.name()).c_str(),
                     ("/dev/shm" + name).c_str()),
              0);
    request.mutable_tensor()->mutable_shared_memory()->set_name(name);
    EXPECT_EQ(Comparable(Answer(request)), Comparable(Answer(plain)));
    shm_unlink(Name("kept").c_str());
  }
}

TEST_F(SharedMemoryTest, AnObjectMayGrowAndShrinkBetweenRequests) {
  const v1::TopKRequest small = Request(v1::DATA_TYPE_I64, {1000}, 0, 9);
  const v1::TopKRequest large = Request(v1::DATA_TYPE_I64, {9000}, 0, 9);
  const std::string name = Name("x");
  SharedMemory memory = Make(name, 72000);
  Resize(name, 8000);
  const v1::TopKRequest in_small = InMemory(small, 0, memory);
  EXPECT_EQ(Comparable(Answer(in_small)), Comparable(Answer(small)));
  Resize(name, 72000);
  const v1::TopKRequest in_large = InMemory(large, 0, memory);
  EXPECT_EQ(Comparable(Answer(in_large)), Comparable(Answer(large)));
  Resize(name, 8000);
  ExpectRefused(in_large, grpc::StatusCode::INVALID_ARGUMENT,
                "SHARED_MEMORY_RANGE", "tensor.shared_memory.byte_size");
  Resize(name, 0);
  ExpectRefused(in_small, grpc::StatusCode::INVALID_ARGUMENT,
                "SHARED_MEMORY_RANGE", "tensor.shared_memory.byte_size");
}

// What may come of a request whose memory is truncated at any moment.
void ExpectRightOrChanged(const Asked& asked, const std::string& expected,
                          int& changed) {
  if (asked.status.ok()) {
    EXPECT_EQ(Comparable(asked.response), expected);
  } else if (asked.reason() == "SHARED_MEMORY_CHANGED") {
    EXPECT_EQ(asked.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    ++changed;
  } else {  // before the request came
    EXPECT_EQ(asked.reason(), "SHARED_MEMORY_RANGE");
  }
}

TEST_F(SharedMemoryTest, TruncationDuringARequestIsItsError) {
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
      std::jthread truncating([&] {  // at moments from all over a request
        const Clock::time_point due = start + usual * round / 24;
        while (Clock::now() < due) std::this_thread::yield();
        Resize(memory.name(), data.size() * static_cast<size_t>(round) / 30);
      });
      const Asked asked = Ask(request);
      ExpectRightOrChanged(asked, expected, changed);
    }
    EXPECT_GT(changed, 0);
  }
}

TEST_F(SharedMemoryTest, TruncationOfAnOutputIsAnErrorToo) {
  v1::TopKRequest request = Request(v1::DATA_TYPE_U8, {3000, 100}, 1, 60);
  SharedMemory memory = Make(Name("x"), 3000 * 60 * 9);
  *request.mutable_output()->mutable_values() = memory.Region(0, 180000);
  *request.mutable_output()->mutable_indices() = memory.Region(180000, 1440000);
  std::atomic<bool> stop = false;
  std::jthread resizing([&] {
    while (!stop) {
      Resize(memory.name(), 5000);
      Resize(memory.name(), memory.data().size());
    }
  });
  for (int round = 0; round < 100; ++round) {
    const Asked asked = Ask(request);
    if (asked.status.ok()) continue;
    EXPECT_TRUE(asked.reason() == "SHARED_MEMORY_CHANGED" ||
                asked.reason() == "SHARED_MEMORY_RANGE")
        << asked.status.error_message();
  }
  stop = true;
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
