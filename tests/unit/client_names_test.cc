// The names and tokens of clients, and their addresses.
#include "server/security/client_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "server/security/token_set.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

constexpr char kAlice[] = "token-of-alice-1";
constexpr char kBob[] = "token-of-bob-001";

std::string Line(const std::string& name, std::string_view token) {
  return StrCat(name, ":", ToHex(HashToken(token)), "\n");
}

std::string NameOf(const TokenSet& set, std::string_view token) {
  const std::string* name = set.Find(token);
  return name == nullptr ? "nobody" : *name;
}

TEST(TokenSet, FindsTheOwnerOfAToken) {
  const std::string longest(64, 'n');
  const auto set = TokenSet::Parse(StrCat(
      "# who\n\n", Line("alice", kAlice), "  ", Line("bob@x", kBob), "\r\n",
      Line("alice", "another-of-alice"), Line(longest, "token-of-longest")));
  ASSERT_TRUE(set.ok()) << set.status().message;
  EXPECT_EQ(NameOf(*set, kAlice), "alice");
  EXPECT_EQ(NameOf(*set, "another-of-alice"), "alice");
  EXPECT_EQ(NameOf(*set, kBob), "bob@x");
  EXPECT_EQ(NameOf(*set, "token-of-longest"), longest);
  EXPECT_EQ(NameOf(*set, "token-of-alice-2"), "nobody");
  EXPECT_EQ(NameOf(*set, "token-of-alice-"), "nobody");
  EXPECT_EQ(NameOf(*set, "token-of-alice-12"), "nobody");
  EXPECT_EQ(NameOf(*set, ""), "nobody");
  EXPECT_EQ(NameOf(*set, ToHex(HashToken(kAlice))), "nobody");
}

TEST(TokenSet, NamesTheLineAndTheRule) {
  const std::string good = Line("alice", kAlice);
  const std::string hash = ToHex(HashToken(kBob));
  for (const auto& [text, says] :
       std::initializer_list<std::pair<std::string, std::vector<std::string>>>{
           {"", {"no token"}},
           {"# only\n\n", {"no token"}},
           {good + kBob, {"line 2", "name:SHA-256"}},
           {StrCat(good, "#\nbob:", hash.substr(1)), {"line 3", "64"}},
           {StrCat("bob:", hash, "0"), {"line 1", "64"}},
           {StrCat("bob:g", hash.substr(1)), {"line 1", "hexadecimal"}},
           {StrCat("bob:0g", hash.substr(2)), {"line 1", "hexadecimal"}},
           {StrCat("bob:", hash.substr(2), " 0"), {"line 1"}},
           {StrCat(":", hash), {"line 1", "name of 1 .. 64"}},
           {StrCat("b c:", hash), {"line 1", "\"b c\""}},
           {StrCat(std::string(65, 'a'), ":", hash), {"line 1", "64 letters"}},
           {StrCat(good, Line("bob", kAlice)), {"line 2", "already listed"}}}) {
    const auto set = TokenSet::Parse(text);
    ASSERT_FALSE(set.ok()) << text;
    for (const std::string& part : says) {
      EXPECT_THAT(set.status().message, HasSubstr(part));
    }
    EXPECT_THAT(set.status().message, Not(HasSubstr(kBob)))
        << "what may be a token is not repeated";
  }
}

}  // namespace
}  // namespace topk
