// A server and the one that takes over its socket and ready file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/topkd.h"

namespace topk::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Many = grpc::ClientReaderWriter<v1::TopKRequest, v1::TopKResult>;

// A call that keeps a server from completing its drain.
class OpenCall {
 public:
  explicit OpenCall(const std::string& target)
      : stub_(v1::TopKService::NewStub(
            grpc::CreateChannel(target, grpc::InsecureChannelCredentials()))),
        call_(stub_->ComputeTopKMany(&context_)) {
    v1::TopKResult result;
    EXPECT_TRUE(call_->Write(OnnxRequest({1, 2}, 1)));
    EXPECT_TRUE(call_->Read(&result));
  }

  void Finish() {
    call_->WritesDone();
    EXPECT_TRUE(call_->Finish().ok());
  }

 private:
  const std::unique_ptr<v1::TopKService::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<Many> call_;
};

bool ServesOn(const std::string& target) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::ClientContext context;
  v1::TopKResponse response;
  return v1::TopKService::NewStub(
             grpc::CreateCustomChannel(target,
                                       grpc::InsecureChannelCredentials(), own))
      ->ComputeTopK(&context, OnnxRequest({1, 2}, 1), &response)
      .ok();
}

TEST(Successor, KeepsItsSocketAndReadyFileWhenItsPredecessorEnds) {
  const TemporaryFolder folder;
  const std::string listen = "unix:" + folder.File("socket");
  Topkd first({"--drain-timeout", "20s"}, listen);
  OpenCall call(listen);
  first.process().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !ServesOn(listen); }));

  Subprocess second({kTopkd, "--listen", listen, "--ready-file",
                     first.ready_file(), "--metrics-listen", "127.0.0.1:0"});
  EXPECT_TRUE(Eventually([&] {
    return json::parse(ReadFile(first.ready_file()), nullptr, false)
        .contains("metrics");
  })) << second.Output();
  EXPECT_TRUE(ServesOn(listen));
  call.Finish();
  EXPECT_EQ(first.process().Wait(), 0);
  EXPECT_TRUE(ServesOn(listen));
  EXPECT_THAT(ReadFile(first.ready_file()), HasSubstr("metrics"));

  second.Signal(SIGTERM);
  EXPECT_EQ(second.Wait(), 0);
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

TEST(ReadyFile, NamesSocketsWhosePathIsNotUtf8) {
  const TemporaryFolder folder;
  Topkd topkd({}, "unix:" + folder.File("\xff"));
  EXPECT_THAT(topkd.target(), HasSubstr("\xef\xbf\xbd"));  // U+FFFD
  topkd.process().Signal(SIGTERM);
  EXPECT_EQ(topkd.process().Wait(), 0) << topkd.process().Output();
}

TEST(Listen, ReportsTheAddressThatFailed) {
  const TemporaryFolder folder;
  const TakenPort taken(/*listens=*/true);
  Subprocess topkd({kTopkd, "--listen", "unix:" + folder.File("socket"),
                    "--listen", taken.address()});
  EXPECT_EQ(topkd.Wait(), 1);
  EXPECT_THAT(topkd.Output(), HasSubstr("listen on " + taken.address()));
  EXPECT_FALSE(std::filesystem::exists(folder.File("socket")));
}

}  // namespace
}  // namespace topk::testing
