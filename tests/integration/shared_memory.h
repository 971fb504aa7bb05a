// Requests with tensors in shared memory, and a server that allows them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "tests/integration/ask.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/requests.h"
#include "tests/support/test_server.h"
#include "topk/shared_memory.h"

namespace topk::testing {

inline ServerConfig SharedMemoryConfig() {
  ServerConfig config;
  config.allow_shared_memory = true;
  config.shared_memory_prefix = "/topk-test";
  return config;
}

/// Returns an object name unique to this process and test.
inline std::string Name(const std::string& what) {
  return StrCat("/topk-test-", getpid(), "-",
                ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                "-", what);
}

/// Creates an object. The test fails if it cannot be created.
inline SharedMemory Make(const std::string& name, size_t bytes) {
  Result<SharedMemory> memory = SharedMemory::Create(name, bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message;
  return *std::move(memory);
}

inline void Write(std::string_view bytes, size_t offset, SharedMemory& memory) {
  std::ranges::copy(std::as_bytes(std::span(bytes)),
                    memory.data().begin() + static_cast<ptrdiff_t>(offset));
}

inline std::string Bytes(const SharedMemory& memory,
                         const v1::SharedMemoryRegion& region) {
  return {reinterpret_cast<const char*>(memory.data().data()) + region.offset(),
          static_cast<size_t>(region.byte_size())};
}

/// Truncates or extends the named object.
inline void Resize(const std::string& name, size_t bytes) {
  const int fd = shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  close(fd);
}

/// Returns a request with a tensor of random data in the message.
inline v1::TopKRequest Request(v1::DataType type,
                               const std::vector<int64_t>& shape, int64_t axis,
                               int64_t k) {
  const bool small = type > v1::DATA_TYPE_U64;  // supported by OpenVINO only
  v1::TopKRequest request = small ? OpenVinoRequest(type, shape, k, axis)
                                  : OnnxRequest(type, shape, k, axis);
  if (!small) request.mutable_spec()->set_version(24);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Random random(7);
  request.mutable_tensor()->set_data(RandomData(random, type, count));
  return request;
}

inline v1::TopKRequest InMemory(v1::TopKRequest request, size_t offset,
                                SharedMemory& memory) {
  const std::string data = request.tensor().data();
  Write(data, offset, memory);
  *request.mutable_tensor()->mutable_shared_memory() =
      memory.Region(offset, data.size());
  return request;
}

/// A server that allows shared memory, and its client.
class SharedMemoryTest : public ::testing::Test {
 protected:
  explicit SharedMemoryTest(const ServerConfig& config = SharedMemoryConfig())
      : server_(config) {}

  v1::TopKResponse Answer(const v1::TopKRequest& request) {
    CallResult asked = Ask(*stub_, request);
    EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
    return std::move(asked.response);
  }

  void ExpectRefused(const v1::TopKRequest& request, grpc::StatusCode code,
                     const std::string& reason, const std::string& field) {
    const CallResult asked = Ask(*stub_, request);
    EXPECT_EQ(asked.status.error_code(), code) << reason;
    ASSERT_FALSE(asked.status.ok());
    EXPECT_EQ(asked.reason(), reason) << asked.status.error_message();
    EXPECT_EQ(asked.field(), field) << asked.status.error_message();
  }

  const TestServer server_;
  const std::unique_ptr<v1::TopKService::Stub> stub_ = server_.Stub();
};

}  // namespace topk::testing
