// Only the admin address serves channelz and reflection.
#include <gmock/gmock.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
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
  EXPECT_EQ(ServersOf(admin), 2);
  EXPECT_TRUE(topkd.HasLogged("serving admin on " + admin));
  EXPECT_EQ(topkd.process().Stop(), 0);
  EXPECT_FALSE(Topkd().ready().contains("admin"));
}

}  // namespace
}  // namespace topk::testing
