// Several servers on one machine that share a port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/integration/topkd.h"
#include "tests/support/client_calls.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

TEST(Instances, ShareAPortAndLoseNoCallWhenOneDrains) {
  const std::vector<std::string> flags = {"--instances", "4", "--pollers", "1"};
  std::vector<std::unique_ptr<Topkd>> servers;
  servers.push_back(std::make_unique<Topkd>(flags));
  const std::string target = servers.front()->target();
  while (servers.size() < 4) {
    servers.push_back(std::make_unique<Topkd>(flags, target));
    ASSERT_EQ(servers.back()->target(), target);
  }

  std::atomic<bool> ends = false;
  std::atomic<int64_t> answered = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      const Client client(
          {.target = target, .channel_arguments = OwnConnection()});
      while (!ends) {
        const auto answer = ComputeUnary(client, OnnxRequest({1, 3, 2}, 1));
        ASSERT_TRUE(answer.ok()) << answer.status().message;
        ++answered;
      }
    });
  }
  const auto has_progress = [&] {
    return Eventually([&, before = answered.load()] {
      return ends || answered > before + 500;
    });
  };
  EXPECT_TRUE(has_progress());
  for (int drained = 0; drained < 3; ++drained) {
    EXPECT_EQ(servers.back()->process().Stop(), 0);
    servers.pop_back();
    EXPECT_TRUE(has_progress());
  }
  ends = true;
}

TEST(Instances, ShareAPortOnlyWithEachOther) {
  for (const auto& [first, second] : {std::pair("1", "2"), {"2", "1"}}) {
    const Topkd running({"--instances", first});
    Subprocess other(
        {kTopkd, "--listen", running.target(), "--instances", second});
    EXPECT_EQ(other.Wait(), 1);
    EXPECT_THAT(other.Output(), HasSubstr("Address already in use"));
  }
}

}  // namespace
}  // namespace topk::testing
