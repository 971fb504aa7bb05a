#include "server/security/client_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/transport/addresses.h"

namespace topk {
namespace {

using ::testing::HasSubstr;

bool Match(const std::string& allowed, NameKind kind, std::string_view name) {
  const auto names = AllowedNames::Parse({"nobody.example", allowed});
  EXPECT_TRUE(names.ok()) << names.status().message;
  return names.ok() && names->Match({kind, name});
}

TEST(AllowedNames, DnsNamesMatchCaseInsensitively) {
  EXPECT_TRUE(Match("a.example", NameKind::kDns, "A.Example"));
  EXPECT_FALSE(Match("a.example", NameKind::kDns, "b.a.example"));
  EXPECT_FALSE(Match("a.example", NameKind::kDns, "a.example.org"));
  EXPECT_FALSE(Match("a.example", NameKind::kDns,
                     std::string_view("a.example\0.evil.org", 19)));
}

TEST(AllowedNames, WildcardMatchesOneLabel) {
  EXPECT_TRUE(Match("*.example.org", NameKind::kDns, "a.example.org"));
  EXPECT_TRUE(Match("*.example.org", NameKind::kDns, "A.EXAMPLE.ORG"));
  EXPECT_FALSE(Match("*.example.org", NameKind::kDns, "example.org"));
  EXPECT_FALSE(Match("*.example.org", NameKind::kDns, ".example.org"));
  EXPECT_FALSE(Match("*.example.org", NameKind::kDns, "a.b.example.org"));
  EXPECT_FALSE(Match("*.example.org", NameKind::kDns, "a.badexample.org"));
  EXPECT_TRUE(Match("*.example.org", NameKind::kDns, "*.example.org"));
}

TEST(AllowedNames, OtherKindsMatchExactly) {
  EXPECT_TRUE(Match("spiffe://x/alice", NameKind::kUri, "spiffe://x/alice"));
  EXPECT_FALSE(Match("spiffe://x/alice", NameKind::kUri, "spiffe://x/Alice"));
  EXPECT_FALSE(Match("spiffe://x/alice", NameKind::kUri, "spiffe://x/alice2"));
  EXPECT_TRUE(Match("al@example.org", NameKind::kEmail, "al@Example.org"));
  EXPECT_FALSE(Match("al@example.org", NameKind::kEmail, "Al@example.org"));
  EXPECT_FALSE(Match("al@example.org", NameKind::kEmail, "al"));
  EXPECT_TRUE(Match("10.0.0.1", NameKind::kIp, "10.0.0.1"));
  EXPECT_TRUE(Match("0:0:0:0:0:0:0:1", NameKind::kIp, "::1"));
}

TEST(AllowedNames, MatchOnlyNamesOfTheSameKind) {
  EXPECT_FALSE(Match("a.example", NameKind::kUri, "a.example"));
  EXPECT_FALSE(Match("10.0.0.1", NameKind::kDns, "10.0.0.1"));
  EXPECT_FALSE(Match("*.example", NameKind::kEmail, "a.example"));
}

TEST(AllowedNames, RejectsInvalidNames) {
  for (const char* name : {"", "*.", "*", "*.*.example", "a b", ":x", "@x",
                           "x@", ".a", "a/b", "a..b", "*.a..b", "a."}) {
    EXPECT_THAT(CheckAllowedName(name).message, HasSubstr("is not a DNS name"))
        << name;
  }
}

TEST(AddressOf, OmitsThePort) {
  EXPECT_EQ(AddressOf("ipv4:127.0.0.1:1234"), "127.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8::1%5D:1234"), "2001:db8::1");
  EXPECT_EQ(AddressOf("ipv6:[::1]:1234"), "::1");
  EXPECT_EQ(AddressOf("unix:"), "unix");
  EXPECT_EQ(AddressOf("unix:/run/topkd"), "unix");
  EXPECT_EQ(AddressOf(""), "");
}

TEST(NetworkOf, KeepsThePrefixOfAnIpv6Address) {
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOf("2001:db8:1:ffff::1", 49), "2001:db8:1:8000::/49");
  EXPECT_EQ(NetworkOf("ffff::ffff", 1), "8000::/1");
  EXPECT_EQ(NetworkOf("2001:db8::1", 128), "2001:db8::1/128");
  EXPECT_EQ(NetworkOf("::ffff:10.0.0.7", 64), "10.0.0.7");
  EXPECT_EQ(NetworkOf("fe80::2%251", 64), "fe80::/64");
  EXPECT_EQ(NetworkOf("10.0.0.7", 64), "10.0.0.7");
  EXPECT_EQ(NetworkOf("unix", 64), "unix");
}

}  // namespace
}  // namespace topk
