// Runs the topkd binary as an operator does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "core/base/text.h"
#include "tests/integration/ask.h"
#include "tests/integration/subprocess.h"
#include "tests/support/client_calls.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

bool IsServing(const std::string& target) {
  const Client client({.target = target, .retry = std::nullopt});
  const auto serving = client.IsServing("");
  return serving.ok() && *serving;
}

bool Answers(const std::string& target) {
  return Ask(target, OnnxRequest({1, 2}, 1)).status.ok();
}

// Expects that each line of a log is valid JSON.
void ExpectJson(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(json::accept(line)) << line;
  }
}

// The test acts as systemd for a unit with Type=notify.
TEST(Topkd, NotifiesTheServiceManager) {
  const TemporaryFolder folder;
  const std::string path = folder.File("notify");
  sockaddr_un address{AF_UNIX, {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(manager, reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  Topkd topkd({}, "127.0.0.1:0", {"NOTIFY_SOCKET=" + path});
  const auto notification = [manager] {
    char text[64];
    const ssize_t size = recv(manager, text, sizeof(text), 0);
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  };
  EXPECT_EQ(notification(), "READY=1");
  topkd.process().Signal(SIGTERM);
  EXPECT_EQ(notification(), "STOPPING=1");
  EXPECT_EQ(topkd.process().Wait(), 0);
  close(manager);
}

// Sends a signal until it ends the drain. The server ignores signals in the
// first second of a drain.
bool EndsDrain(Topkd& topkd, int signal) {
  return Eventually([&] {
    topkd.process().Signal(signal);
    return topkd.process().Output().find("second signal") != std::string::npos;
  });
}

TEST(Topkd, IgnoresSighup) {
  Topkd topkd({"--drain-delay", "20s"});
  topkd.process().Signal(SIGHUP);
  EXPECT_TRUE(topkd.HasLogged("SIGHUP is ignored; "));
  EXPECT_TRUE(Answers(topkd.target()));
  topkd.process().Signal(SIGTERM);
  EXPECT_TRUE(topkd.HasLogged("Terminated: draining"));
  // SIGHUP does not count as a second signal, which would end the drain. Send
  // it beyond the first second, in which no signal counts.
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(2)) {
    topkd.process().Signal(SIGHUP);
    ASSERT_TRUE(Answers(topkd.target()));
  }
  EXPECT_TRUE(EndsDrain(topkd, SIGINT));
  EXPECT_EQ(topkd.process().Wait(), 1);
}

// GNU timeout signals a process and then its group. Two pending signals of one
// kind merge, so send one of each kind.
TEST(Topkd, CountsADoubledSignalOnce) {
  Topkd topkd;
  topkd.process().Signal(SIGTERM);
  topkd.process().Signal(SIGINT);
  EXPECT_EQ(topkd.process().Wait(), 0) << topkd.process().Output();
}

TEST(Topkd, LogsValidJson) {
  Topkd topkd({"--log-format", "json", "--log-level", "debug"});
  EXPECT_TRUE(Answers(topkd.target()));
  // protobuf logs that the request_id is not UTF-8.
  EXPECT_FALSE(RawCall(ConnectTo(topkd.target()),
                       "/topk.v1.TopKService/ComputeTopK", {"\x3a\x01\xff"})
                   .status.ok());
  EXPECT_EQ(topkd.process().Stop(), 0);
  EXPECT_THAT(topkd.process().Output(), HasSubstr("UTF-8"));
  ExpectJson(topkd.process().Output());
}

TEST(Topkd, ReportsTooFewFileDescriptors) {
  Subprocess topkd(
      {"/bin/sh", "-c",
       StrCat("ulimit -n 127 && exec ", kTopkd, " --listen 127.0.0.1:0")});
  EXPECT_EQ(topkd.Wait(), 1);
  EXPECT_THAT(topkd.Output(),
              HasSubstr("the limit on open files, 127 (ulimit -n), must be at "
                        "least 128"));
}

TEST(Topkd, ReplacesOnlyARegularFileByTheReadyFile) {
  const TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Subprocess topkd({kTopkd, "--listen", "127.0.0.1:0", "--ready-file", pipe});
  EXPECT_EQ(topkd.Wait(), 1);
  EXPECT_THAT(topkd.Output(), HasSubstr("is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(Topkd, ServesAndEndsWithABlockedLog) {
  const TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int fd = open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // never read
  const std::string ready_file = folder.File("ready.json");
  Subprocess topkd({"/bin/sh", "-c",
                    std::string("exec ") + kTopkd +
                        " --listen 127.0.0.1:0 --log-level debug"
                        " --metrics-listen 127.0.0.1:0 --ready-file " +
                        ready_file + " 2>" + pipe});
  ASSERT_TRUE(Eventually([&] { return !ReadFile(ready_file).empty(); }));
  const json ready = json::parse(ReadFile(ready_file));
  ManyCall many(ready["listen"][0].get<std::string>());
  // More lines than the pipe and the queue can hold.
  for (int i = 0; i < 6000 && !HasFailure(); ++i) {
    many.Ask(OnnxRequest({1, 2}, 1));
  }
  EXPECT_TRUE(many.Finish().ok());
  EXPECT_THAT(HttpGet(ready["metrics"], "/metrics"),
              ContainsRegex("topk_log_dropped_total [1-9]"));
  EXPECT_EQ(topkd.Stop(), 0);
  close(fd);
}

TEST(Topkd, EndsAtTheDrainTimeoutOrAtASecondSignal) {
  for (const char* timeout : {"200ms", "10m"}) {
    Topkd topkd({"--drain-timeout", timeout});
    StreamCall stream(topkd.target());
    ASSERT_TRUE(stream->Write(HeaderOf(OnnxRequest({1, 2}, 1))));
    topkd.process().Signal(SIGTERM);
    ASSERT_TRUE(topkd.HasLogged("draining"));
    const bool second = timeout == std::string("10m");
    EXPECT_TRUE(!second || EndsDrain(topkd, SIGTERM));
    EXPECT_EQ(topkd.process().Wait(), second ? 1 : 0);
    EXPECT_FALSE(stream->Finish().ok());
  }
}

std::vector<std::string> Preload(const std::string& library) {
  return {"LD_PRELOAD=" + library, "ASAN_OPTIONS=verify_asan_link_order=0"};
}

TEST(Topkd, ServesIPv4AndIPv6UnlessTheKernelHasNoIPv6) {
  for (const auto& [any, ipv6] :
       {std::pair("[::]:0", true), {"0.0.0.0:0", true}, {"[::]:0", false}}) {
    Topkd topkd({"--health-listen", any, "--metrics-listen", any}, any,
                ipv6 ? std::vector<std::string>() : Preload(TOPK_NO_IPV6));
    const auto at = [&](const std::string& host, const std::string& address) {
      return host + address.substr(address.rfind(':'));
    };
    for (const std::string host : {"127.0.0.1", "[::1]"}) {
      SCOPED_TRACE(host);
      const bool answers = ipv6 || host != "[::1]";
      EXPECT_EQ(Answers(at(host, topkd.target())), answers);
      EXPECT_EQ(HttpGet(at(host, topkd.ready()["metrics"]), "/metrics").empty(),
                !answers);
      EXPECT_EQ(IsServing(at(host, topkd.ready()["health"])), answers);
    }
    EXPECT_EQ(topkd.process().Stop(), 0);
  }
}

TEST(Topkd, EndsInTimeWithAStuckThread) {
  Topkd topkd({"--drain-timeout", "100ms"}, "127.0.0.1:0",
              Preload(TOPK_STUCK_SHUTDOWN));
  EXPECT_EQ(topkd.process().Stop(), 1);
  EXPECT_THAT(topkd.process().Output(), HasSubstr("not drained"));
}

TEST(Topkd, ServesNoCallUnlessItCanBindAllAddresses) {
  const TemporaryFolder folder;
  const TakenPort taken(/*listens=*/true);
  for (const std::string flag :
       {"--listen", "--metrics-listen", "--health-listen", "--admin-listen"}) {
    SCOPED_TRACE(flag);
    const std::string address =
        TakenPort(/*listens=*/false).address();  // free after this line
    Subprocess topkd({kTopkd, "--listen", "unix:" + folder.File("socket"),
                      "--listen", address, flag, taken.address(),
                      "--log-format", "json"});
    int fd = -1;
    while (fd < 0 && topkd.Output().empty()) fd = OpenSocketTo(address);
    // A server that serves sends its HTTP/2 settings.
    char byte = 0;
    EXPECT_TRUE(fd < 0 || recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    EXPECT_EQ(topkd.Wait(), 1);
    EXPECT_THAT(topkd.Output(), HasSubstr(taken.address()));
    EXPECT_FALSE(std::filesystem::exists(folder.File("socket")));
    ExpectJson(topkd.Output());  // including gRPC's lines
  }
}

TEST(Successor, KeepsItsSocketAndReadyFileWhenItsPredecessorEnds) {
  const TemporaryFolder folder;
  const std::string listen = "unix:" + folder.File("socket");
  Topkd first({"--drain-timeout", "20s"}, listen);
  // An open call keeps the server from completing its drain.
  ManyCall call(listen);
  call.Ask(OnnxRequest({1, 2}, 1));
  first.process().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !Answers(listen); }));

  Subprocess second({kTopkd, "--listen", listen, "--ready-file",
                     first.ready_file(), "--metrics-listen", "127.0.0.1:0"});
  EXPECT_TRUE(Eventually([&] {
    return json::parse(ReadFile(first.ready_file()), nullptr, false)
        .contains("metrics");
  })) << second.Output();
  EXPECT_TRUE(Answers(listen));
  (void)call.Finish();  // a drain ends calls that are idle for long
  EXPECT_EQ(first.process().Wait(), 0);
  EXPECT_TRUE(Answers(listen));
  EXPECT_THAT(ReadFile(first.ready_file()), HasSubstr("metrics"));

  second.Signal(SIGINT);  // ends the server like SIGTERM
  EXPECT_EQ(second.Wait(), 0) << second.Output();
  EXPECT_FALSE(std::filesystem::exists(folder.File("socket")));
  EXPECT_FALSE(std::filesystem::exists(first.ready_file()));
}

TEST(Successor, ReplacesTheFilesOnlyOfADeadServer) {
  const TemporaryFolder folder;
  const std::string listen = "unix:" + folder.File("socket");
  constexpr char kNotHere[] = "192.0.2.1:0";
  const auto fails_on = [](const std::string& address, const Topkd& other) {
    Subprocess topkd(
        {kTopkd, "--listen", address, "--ready-file", other.ready_file()});
    EXPECT_EQ(topkd.Wait(), 1) << topkd.Output();
    EXPECT_THAT(topkd.Output(), HasSubstr(address));
  };
  {
    Topkd killed({}, listen);
    killed.process().Signal(SIGKILL);
    EXPECT_EQ(killed.process().Wait(), 128 + SIGKILL);
    EXPECT_TRUE(std::filesystem::exists(folder.File("socket")));
    EXPECT_TRUE(std::filesystem::exists(killed.ready_file()));
    fails_on(kNotHere, killed);
    EXPECT_FALSE(std::filesystem::exists(killed.ready_file()))
        << "removed before the address is bound";
  }
  Topkd running({}, listen);
  const std::string content = ReadFile(running.ready_file());
  for (const std::string& address : {listen, std::string(kNotHere)}) {
    fails_on(address, running);
    EXPECT_EQ(ReadFile(running.ready_file()), content);
  }
  EXPECT_TRUE(Answers(listen));
  EXPECT_EQ(running.process().Stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.File("socket")));
}

constexpr char kGetServers[] = "/grpc.channelz.v1.Channelz/GetServers";

// Returns the number of servers that channelz shows, which are field 1 of its
// response. Debian does not package channelz's messages.
int ServersOf(const std::string& target) {
  const RawAnswer answer = RawCall(ConnectTo(target), kGetServers, {""});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  google::protobuf::Empty message;
  EXPECT_TRUE(message.ParseFromString(answer.messages.at(0)));
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  int count = 0;
  for (int i = 0; i < fields.field_count(); ++i) {
    count += fields.field(i).number() == 1 ? 1 : 0;
  }
  return count;
}

TEST(Admin, OnlyAdminServesChannelzAndReflection) {
  TestServer server({.admin_listen = "127.0.0.1:0"});
  // Started after channelz was enabled for all later servers of the process.
  TestServer second;
  const std::string admin = server.server().side_addresses().at("admin");
  EXPECT_EQ(second.server().side_addresses().count("admin"), 0u);
  // The two servers and the server behind the admin address.
  EXPECT_EQ(ServersOf(admin), 3);
  // ServerReflectionRequest{list_services: "*"}, {file_containing_symbol: ...}
  const RawAnswer reflected =
      RawCall(ConnectTo(admin), kReflection,
              {"\x3a\x01*", "\x22\x13topk.v1.TopKService"});
  ASSERT_EQ(reflected.messages.size(), 2u) << reflected.status.error_message();
  EXPECT_THAT(reflected.messages[0], HasSubstr("grpc.channelz.v1.Channelz"));
  EXPECT_THAT(reflected.messages[1], HasSubstr("ComputeTopKMany"));
  for (const std::string& target : {server.target(), second.target()}) {
    for (const char* method : {kGetServers, kReflection}) {
      EXPECT_EQ(RawCall(ConnectTo(target), method, {""}).status.error_code(),
                grpc::StatusCode::UNIMPLEMENTED);
    }
  }
}

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
      const Client client({.target = target,
                           .retry = std::nullopt,
                           .channel_arguments = OwnConnection()});
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
