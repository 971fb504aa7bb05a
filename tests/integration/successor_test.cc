// A server, and the successor that takes over its socket and ready file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/ask.h"
#include "tests/integration/topkd.h"

namespace topk::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

bool ServesOn(const std::string& target) {
  return Ask(target, OnnxRequest({1, 2}, 1)).status.ok();
}

TEST(Successor, KeepsItsSocketAndReadyFileWhenItsPredecessorEnds) {
  const TemporaryFolder folder;
  const std::string listen = "unix:" + folder.File("socket");
  Topkd first({"--drain-timeout", "20s"}, listen);
  // An open call keeps the server from completing its drain.
  ManyCall call(listen);
  call.Ask(OnnxRequest({1, 2}, 1));
  first.process().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !ServesOn(listen); }));

  Subprocess second({kTopkd, "--listen", listen, "--ready-file",
                     first.ready_file(), "--metrics-listen", "127.0.0.1:0"});
  EXPECT_TRUE(Eventually([&] {
    return json::parse(ReadFile(first.ready_file()), nullptr, false)
        .contains("metrics");
  })) << second.Output();
  EXPECT_TRUE(ServesOn(listen));
  (void)call.Finish();  // a drain ends calls that are idle for long
  EXPECT_EQ(first.process().Wait(), 0);
  EXPECT_TRUE(ServesOn(listen));
  EXPECT_THAT(ReadFile(first.ready_file()), HasSubstr("metrics"));

  EXPECT_EQ(second.Stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.File("socket")));
  EXPECT_FALSE(std::filesystem::exists(first.ready_file()));
}

TEST(Successor, KeepsTheReadyFileOfARunningServerIfItCannotStart) {
  Topkd first;
  const std::string content = ReadFile(first.ready_file());
  for (const std::string& listen :
       {first.target(), std::string("192.0.2.1:0")}) {
    Subprocess second(
        {kTopkd, "--listen", listen, "--ready-file", first.ready_file()});
    EXPECT_EQ(second.Wait(), 1) << second.Output();
    EXPECT_EQ(ReadFile(first.ready_file()), content);
  }
}

TEST(Successor, RemovesTheReadyFileOfAKilledServerBeforeItServes) {
  Topkd killed;
  killed.process().Signal(SIGKILL);
  EXPECT_EQ(killed.process().Wait(), 128 + SIGKILL);
  EXPECT_NE(ReadFile(killed.ready_file()), "");
  Subprocess second(
      {kTopkd, "--listen", "192.0.2.1:0", "--ready-file", killed.ready_file()});
  EXPECT_EQ(second.Wait(), 1) << second.Output();
  EXPECT_FALSE(std::filesystem::exists(killed.ready_file()));
}

}  // namespace
}  // namespace topk::testing
