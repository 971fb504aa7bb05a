// Tests calls to a stalled server while gRPC still uses the caller's memory.
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <thread>

#include "tests/integration/topkd.h"
#include "tests/support/client_calls.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using std::chrono::steady_clock;

class StoppedServer : public ::testing::TestWithParam<const char*> {};

TEST_P(StoppedServer, CallsEndAtTheirDeadline) {
  const TemporaryFolder folder;
  const std::string where = GetParam();
  Topkd topkd({}, where == "unix" ? "unix:" + folder.File("socket") : where);
  const Client client({.target = topkd.target()});
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  ASSERT_TRUE(ComputeUnary(client, request).ok());

  const std::vector<std::byte> tensor(size_t{60} << 20);
  request.mutable_tensor()->clear_source();
  request.mutable_tensor()->set_shape(
      0, static_cast<int64_t>(tensor.size() / sizeof(float)));
  topkd.process().Signal(SIGSTOP);
  // Over TCP, the call may return 10 s after its deadline. The other 10 s are
  // slack for a loaded machine. The kernel never closes a Unix socket to a
  // stalled server, so the call may last until the server continues.
  constexpr std::chrono::seconds kBound(20);
  const std::chrono::seconds stopped = where == "unix" ? kBound / 10 : kBound;
  std::promise<void> ended;
  const std::jthread continues([&, end = ended.get_future()]() mutable {
    if (end.wait_for(stopped) != std::future_status::ready) {
      topkd.process().Signal(SIGCONT);
    }
  });
  CallOptions call;
  call.timeout = std::chrono::milliseconds(500);
  const auto start = steady_clock::now();
  const auto answer = ComputeStream(client, request, tensor, call);
  EXPECT_LT(steady_clock::now() - start, kBound);
  ended.set_value();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code, Code::kDeadlineExceeded);
  topkd.process().Signal(SIGCONT);
  const auto again = ComputeStream(client, request, tensor);
  EXPECT_TRUE(again.ok()) << again.status().message;
}

INSTANTIATE_TEST_SUITE_P(Over, StoppedServer,
                         ::testing::Values("127.0.0.1:0", "unix"),
                         [](const auto& param) {
                           return param.index == 0 ? "tcp" : "unix";
                         });

}  // namespace
}  // namespace topk::testing
