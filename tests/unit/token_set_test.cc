#include "server/security/token_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace topk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
