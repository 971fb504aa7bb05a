// Calls whose deadline has already passed when they arrive. One poller may
// handle the end of a call while another still handles its arrival. gRPC's
// clients never send expired calls, so this test sends raw frames.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/common/methods.h"
#include "tests/integration/ask.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

// Returns an HTTP/2 frame.
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const uint32_t byte :
       {size >> 16, size >> 8, size, uint32_t{type}, uint32_t{flags},
        stream >> 24, stream >> 16, stream >> 8, stream}) {
    frame += static_cast<char>(byte);
  }
  return frame + payload;
}

// Returns the headers of a call as literals without indexing.
std::string Headers(std::string_view path) {
  const std::vector<std::pair<std::string_view, std::string_view>> headers = {
      {":method", "POST"},   {":scheme", "http"},
      {":path", path},       {":authority", "localhost"},
      {"te", "trailers"},    {"content-type", "application/grpc"},
      {"grpc-timeout", "1n"}};
  std::string block;
  for (const auto& [name, value] : headers) {
    block += '\0';
    block += static_cast<char>(name.size());
    block += name;
    block += static_cast<char>(value.size());
    block += value;
  }
  return block;
}

// Sends `count` calls on a new connection, some of them reset. Returns when the
// server has answered the last one or closed the connection.
void SendExpiredCalls(const std::string& target, uint32_t count) {
  constexpr uint8_t kHeaders = 1;
  constexpr uint8_t kReset = 3;
  constexpr uint8_t kSettings = 4;
  constexpr uint8_t kEndStream = 1;
  constexpr uint8_t kEndHeaders = 4;
  const int fd = OpenSocketTo(target);
  ASSERT_GE(fd, 0);
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += Frame(kSettings, 0, 0, "");
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t stream = 2 * i + 1;
    const bool ends = i % 2 == 0;
    bytes += Frame(kHeaders, ends ? kEndHeaders | kEndStream : kEndHeaders,
                   stream, Headers(kMethodPaths[i % kMethodPaths.size()]));
    if (i % 5 == 0)
      bytes += Frame(kReset, 0, stream, std::string("\0\0\0\x8", 4));
  }
  std::thread drain([fd] {
    char buffer[1 << 14];
    while (read(fd, buffer, sizeof(buffer)) > 0) {
    }
  });
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n =
        send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // gRPC may close a connection with many resets
    sent += static_cast<size_t>(n);
  }
  shutdown(fd, SHUT_WR);
  drain.join();
  close(fd);
}

TEST(ExpiredCalls, EndOnAnyNumberOfPollers) {
  // "info" would log each call. With slow pollers, all of the expired calls may
  // be in flight at once, so the limit per client is raised.
  TestServer server(
      {.pollers = 4, .max_client_inflight_calls = 4096, .log_level = "warn"});
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        SendExpiredCalls(server.target(), 100);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const grpc::Status status = Ask(server, OnnxRequest({1, 2, 3}, 1)).status;
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Ask(server, OnnxRequest({1, 2, 3}, 1)).status.ok());
}

}  // namespace
}  // namespace topk::testing
