// Server addresses given by users, and those that other machines cannot reach.
#include "core/security/target.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace topk {
namespace {

// Splits a list at vertical bars.
std::vector<std::string> SplitTargets(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, '|');) items.push_back(item);
  return items;
}

TEST(Target, AcceptsPortsThatGrpcReadsAsWritten) {
  for (const std::string& target : SplitTargets(
           "localhost:1|10.0.0.1:65535|[::1]:50051|10.0.0.1:1,10.0.0.2:2|"
           "[::1]:1,[fe80::1%eth0]:2|dns:a.example:1|dns:///a:1|"
           "dns://8.8.8.8/a:1|ipv4:10.0.0.1:1|ipv4:10.0.0.1:1,10.0.0.2:2|"
           "ipv6:[::1]:1|unix:/run/a:99999|unix:a|unix-abstract:a|"
           "xds:///topk")) {
    EXPECT_EQ(TargetError(target), "") << target;
  }
}

TEST(Target, RejectsOtherPorts) {
  for (const std::string& target : SplitTargets(
           "|localhost|:1|localhost:|localhost:0|localhost:65536|"
           "127.0.0.1:100001|localhost:-1|localhost:+1|localhost:0x50|"
           "localhost:http|localhost: 1|localhost:1 |::1:1|[::1:1|a:1,|a:1,b|"
           "a:1,b:65537|dns:a|dns:///a|dns://8.8.8.8:1/a|ipv4:10.0.0.1|"
           "ipv4:10.0.0.1:1,10.0.0.2:0|ipv6:[::1]|ipv6:[::1]:-1|"
           "a\xe2\x80\xae:1")) {
    EXPECT_NE(TargetError(target).find("is not host:port with a port of 1 .. "),
              std::string::npos)
        << target;
  }
}

TEST(Target, RejectsListsThatGrpcCannotRead) {
  for (const std::string& target :
       SplitTargets("127.0.0.1:1,localhost:1|localhost:1,127.0.0.1:1|a:1,b:2|"
                    "127.0.0.1:1,[::1]:1|[::1]:1,127.0.0.1:1|ipv4:localhost:1|"
                    "ipv4:[::1]:1|ipv6:127.0.0.1:1|ipv6:[x]:1")) {
    EXPECT_NE(TargetError(target).find("is not a list of IPv4 addresses"),
              std::string::npos)
        << target;
  }
}

TEST(Target, QuotesWhatItRejects) {
  EXPECT_EQ(TargetError("a\x1b[2J:1x" + std::string(1000, 'y')).substr(0, 12),
            "\"a?[2J:1xyyy");
  EXPECT_LT(TargetError(std::string(100'000, 'y')).size(), 200u);
}

TEST(LocalAddress, AcceptsLoopbackAddressesOnly) {
  for (const char* address :
       {"localhost", "localhost:1", "127.0.0.1", "127.0.0.1:50051",
        "127.1.2.3:1", "::ffff:127.0.0.1", "::1", "[::1]", "[::1]:50051"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"", "0.0.0.0:1", "[::]:1", "[::1]x", "[::10]:1", "::10", "10.0.0.1:1",
        "::ffff:10.0.0.1", "127.example.com:1", "127.0.0.1.example.com",
        "localhost.example.com", "example.com", "unix:/tmp/s"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(LocalAddress, AcceptsUnixSockets) {
  EXPECT_TRUE(IsUnixAddress("unix:/run/s"));
  EXPECT_TRUE(IsUnixAddress("unix-abstract:s"));
  EXPECT_FALSE(IsUnixAddress("localhost:1"));
  EXPECT_FALSE(IsUnixAddress("unix"));
}

}  // namespace
}  // namespace topk
