// Tests of the `topk` command with faulty or slow servers. cli_test.py tests
// all other command lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "tests/clients/cpp/fake_server.h"
#include "tests/integration/subprocess.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

grpc::Status Succeed() { return grpc::Status::OK; }

// Returns a server whose `compute` depends only on the number of the call.
FakeServer ServerOf(std::function<grpc::Status(int call)> compute,
                    std::atomic<int>& calls) {
  return FakeServer({.compute = [compute, &calls](auto&, auto&, auto&) {
    return compute(++calls);
  }});
}

class Command : public ::testing::Test {
 protected:
  // Children inherit ignored signals, e.g. those of a background job.
  Command() { signal(SIGINT, SIG_DFL); }

  int Run(const std::string& arguments, const FakeServer& server) {
    Subprocess topk(CommandLine(arguments, server));
    const int status = topk.Wait();
    output_ = topk.Output();
    return status;
  }

  static std::vector<std::string> CommandLine(const std::string& arguments,
                                              const FakeServer& server) {
    return {"/bin/sh", "-c",
            StrCat("exec ", TOPK_BINARY_DIR, "/bin/topk ", arguments,
                   " --target ", server.target())};
  }

  std::string output_;  // stdout and stderr of the last Run()
  std::atomic<int> calls_ = 0;
};

TEST_F(Command, HealthReportsAServerThatIsNotServing) {
  FakeServer server({});
  server.SetServing(false);
  EXPECT_EQ(Run("health --service topk.v1.TopKService", server), 5);
  EXPECT_THAT(output_, HasSubstr("NOT_SERVING\n"));
}

TEST_F(Command, EscapesTheServersText) {
  const grpc::Status status(grpc::StatusCode::INVALID_ARGUMENT,
                            "\x1b]0;owned\a\u009b2J");
  const FakeServer server(ServerOf([&](int) { return status; }, calls_));
  EXPECT_EQ(Run("bench --k 2", server), 4);
  EXPECT_EQ(output_,
            "topk: INVALID_ARGUMENT: \\x1b]0;owned\\x07\\xc2\\x9b2J\n");
}

TEST_F(Command, BenchReportsAWrongResult) {
  const FakeServer server(ServerOf([](int) { return Succeed(); }, calls_));
  EXPECT_EQ(Run("bench --shape 2,5 --k 2 --duration 60 --concurrency 3 "
                "--keep-going",
                server),
            6);
  EXPECT_THAT(output_, StartsWith("topk: "));  // no report
  EXPECT_LT(calls_, 100);
}

// The first call of `topk bench` only connects and is not counted.
TEST_F(Command, BenchCountsFailures) {
  const grpc::Status full(grpc::StatusCode::INVALID_ARGUMENT, "full");
  const std::string bench =
      "bench --k 2 --requests 10 --verify 0 --json --concurrency 1";
  const FakeServer half(ServerOf(
      [&](int call) { return call % 2 == 0 ? full : Succeed(); }, calls_));
  EXPECT_EQ(Run(bench + " --keep-going", half), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("\"errors\":{\"INVALID_ARGUMENT\":5}"));

  const FakeServer fifth(
      ServerOf([&](int call) { return call == 5 ? full : Succeed(); }, calls_));
  calls_ = 0;
  EXPECT_EQ(Run(bench, fifth), 4);
  for (const char* part :
       {"full", "\"requests\":3,", "\"errors\":{\"INVALID_ARGUMENT\":1}"}) {
    EXPECT_THAT(output_, HasSubstr(part));
  }
}

TEST_F(Command, BenchReportsALoadThatFailsCompletely) {
  const grpc::Status none(grpc::StatusCode::INVALID_ARGUMENT, "none");
  const FakeServer server(ServerOf([&](int) { return none; }, calls_));
  for (const auto& [flag, status] :
       std::map<std::string, int>{{"--keep-going", 4}, {"--max-errors 1", 8}}) {
    EXPECT_EQ(Run(StrCat("bench --k 2 --requests 3 ", flag), server), status);
    EXPECT_THAT(output_, HasSubstr("3 requests failed: INVALID_ARGUMENT\n"));
  }
}

TEST_F(Command, BenchRetriesOnlyIfAsked) {
  const grpc::Status busy(grpc::StatusCode::UNAVAILABLE, "busy");
  // The even calls fail. The first call only connects.
  const FakeServer server(ServerOf(
      [&](int call) { return call % 2 == 0 ? busy : Succeed(); }, calls_));
  const std::string bench = "bench --k 2 --requests 3 --verify 0 --json";
  EXPECT_EQ(Run(bench + " --max-errors 1", server), 8);
  EXPECT_THAT(output_, HasSubstr("\"errors\":{\"UNAVAILABLE\":2}"));
  EXPECT_THAT(output_, HasSubstr("\"retried\":0"));
  EXPECT_THAT(output_, HasSubstr("topk: --max-errors: 2 requests failed, more "
                                 "than the limit of 1\n"));
  calls_ = 0;
  EXPECT_EQ(Run(bench + " --max-attempts 2", server), 0) << output_;
  EXPECT_EQ(calls_, 7);
  EXPECT_THAT(output_, HasSubstr("\"retried\":3"));
}

TEST_F(Command, BenchOpensTheRequestedConnectionsAndSendsMetadata) {
  for (const size_t connections : {1, 3}) {
    std::mutex mutex;
    std::set<std::string> peers;
    std::set<std::string> seen;
    const FakeServer server(
        {.compute = [&](grpc::ServerContext& context, auto&, auto&) {
          const std::lock_guard lock(mutex);
          peers.insert(context.peer());
          for (const auto& [name, value] : HeadersOf(context)) {
            seen.insert(StrCat(name, ": ", value));
          }
          return Succeed();
        }});
    EXPECT_EQ(Run(StrCat("bench --k 2 --requests 30 --verify 0 --concurrency 6 "
                         "--metadata x-a=1=2 --metadata x-b= --metadata x-a=3 "
                         "--connections ",
                         connections),
                  server),
              0)
        << output_;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(peers.size(), connections);
    EXPECT_THAT(seen, IsSupersetOf({"x-a: 1=2", "x-a: 3", "x-b: "}));
  }
}

TEST_F(Command, BenchEndsAtASignalWithAReport) {
  const FakeServer server(ServerOf([](int) { return Succeed(); }, calls_));
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* rate : {"", " --rate 40"}) {
      calls_ = 0;
      Subprocess bench(CommandLine(
          StrCat("bench --k 2 --duration 600 --warmup 0 --verify 0 --json",
                 rate),
          server));
      EXPECT_TRUE(Eventually([&] { return calls_ >= 5; }));
      bench.Signal(signal);
      EXPECT_EQ(bench.Wait(), 130) << bench.Output();
      EXPECT_THAT(bench.Output(), HasSubstr("\"interrupted\":true"));
      EXPECT_THAT(bench.Output(), HasSubstr("topk: interrupted"));
    }
  }
}

TEST_F(Command, SecondSignalEndsAWaitingBench) {
  std::atomic<bool> over = false;
  const FakeServer server(ServerOf(
      [&](int call) {
        if (call > 1) over.wait(false);
        return Succeed();
      },
      calls_));
  Subprocess bench(CommandLine("bench --k 2 --verify 0", server));
  EXPECT_TRUE(Eventually([&] { return calls_ >= 2; }));
  // Signals that arrive before the first one is handled are merged with it.
  bench.Signal(SIGINT);
  const std::string stat = StrCat("/proc/", bench.pid(), "/stat");
  EXPECT_TRUE(Eventually([&] {
    bench.Signal(SIGTERM);
    return ReadFile(stat).find(") Z") != std::string::npos;
  }));
  EXPECT_EQ(bench.Wait(), 128 + SIGTERM);
  over = true;
  over.notify_all();
}

}  // namespace
}  // namespace topk::testing
