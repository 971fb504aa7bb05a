#include "server/security/client_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/transport/addresses.h"

namespace topk {
namespace {

using ::testing::HasSubstr;

TEST(AllowedNames, MatchNamesOfTheSameKind) {
  struct Case {
    bool matches;
    const char* allowed;
    std::string_view kind;
    std::string_view name;
  };
  for (const auto& [matches, allowed, kind, name] : std::initializer_list<Case>{
           {true, "a.example", kDnsName, "A.Example"},
           {false, "a.example", kDnsName, "b.a.example"},
           {false, "a.example", kDnsName, "a.example.org"},
           {false, "a.example", kDnsName, {"a.example\0.evil.org", 19}},
           {true, "*.example.org", kDnsName, "a.example.org"},
           {true, "*.example.org", kDnsName, "A.EXAMPLE.ORG"},
           {false, "*.example.org", kDnsName, "example.org"},
           {false, "*.example.org", kDnsName, ".example.org"},
           {false, "*.example.org", kDnsName, "a.b.example.org"},
           {false, "*.example.org", kDnsName, "a.badexample.org"},
           {true, "*.example.org", kDnsName, "*.example.org"},
           {true, "spiffe://x/alice", kUriName, "spiffe://x/alice"},
           {false, "spiffe://x/alice", kUriName, "spiffe://x/Alice"},
           {false, "spiffe://x/alice", kUriName, "spiffe://x/alice2"},
           {true, "al@example.org", kEmailName, "al@example.org"},
           {false, "al@example.org", kEmailName, "Al@example.org"},
           {false, "al@example.org", kEmailName, "al"},
           {true, "10.0.0.1", kIpName, "10.0.0.1"},
           {true, "0:0:0:0:0:0:0:1", kIpName, "::1"},
           {false, "a.example", kUriName, "a.example"},
           {false, "10.0.0.1", kDnsName, "10.0.0.1"},
           {false, "*.example", kEmailName, "a.example"}}) {
    const auto names = AllowedNames::Parse({"nobody.example", allowed});
    ASSERT_TRUE(names.ok()) << names.status().message;
    EXPECT_EQ(names->Match(kind, name), matches) << allowed << " " << name;
  }
}

TEST(AllowedNames, RejectsInvalidNames) {
  for (const char* name : {"", "*.", "*", "*.*.example", "a b", ":x", "@x",
                           "x@", ".a", "a/b", "a..b", "*.a..b", "a."}) {
    EXPECT_THAT(CheckAllowedName(name), HasSubstr("is not a DNS name")) << name;
  }
}

TEST(AddressOf, OmitsThePort) {
  EXPECT_EQ(AddressOf("ipv4:127.0.0.1:1234"), "127.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8::1%5D:1234"), "2001:db8::1");
  EXPECT_EQ(AddressOf("ipv6:[::1]:1234"), "::1");
  EXPECT_EQ(AddressOf("ipv6:%5B::ffff:10.0.0.7%5D:1234"), "10.0.0.7");
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
