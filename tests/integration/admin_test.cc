// Only the admin address serves channelz and reflection.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "tests/integration/raw_call.h"
#include "tests/integration/topkd.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kGetServers[] = "/grpc.channelz.v1.Channelz/GetServers";
constexpr char kReflect[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Returns the response as JSON. Debian does not package channelz's messages.
std::string Servers(const std::string& target) {
  const RawAnswer answer = RawCall(ConnectTo(target), kGetServers, {""});
  if (!answer.status.ok()) return answer.status.error_message();
  const auto* type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          "grpc.channelz.v1.GetServersResponse");
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(type)
          ->New());
  EXPECT_TRUE(message->ParseFromString(answer.messages.at(0)));
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(*message, &text);
  return text;
}

int CountOf(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
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
  EXPECT_EQ(CountOf(Servers(admin), "serverId"), 3);
  // ServerReflectionRequest{list_services: "*"}, {file_containing_symbol: ...}
  const RawAnswer reflected = RawCall(
      ConnectTo(admin), kReflect, {"\x3a\x01*", "\x22\x13topk.v1.TopKService"});
  ASSERT_EQ(reflected.messages.size(), 2u) << reflected.status.error_message();
  EXPECT_THAT(reflected.messages[0], HasSubstr("grpc.channelz.v1.Channelz"));
  EXPECT_THAT(reflected.messages[1], HasSubstr("ComputeTopKMany"));
  for (const std::string& target : {server.target(), second.target()}) {
    for (const char* method : {kGetServers, kReflect}) {
      EXPECT_EQ(RawCall(ConnectTo(target), method, {""}).status.error_code(),
                grpc::StatusCode::UNIMPLEMENTED);
    }
  }
}

TEST(Admin, IsInTheReadyFileAndTheLog) {
  Topkd topkd({"--admin-listen", "127.0.0.1:0"});
  const std::string admin = topkd.ready()["admin"];
  EXPECT_EQ(CountOf(Servers(admin), "serverId"), 2);
  EXPECT_TRUE(topkd.HasLogged("serving admin on " + admin));
  EXPECT_EQ(topkd.process().Stop(), 0);
  EXPECT_FALSE(Topkd().ready().contains("admin"));
}

}  // namespace
}  // namespace topk::testing
