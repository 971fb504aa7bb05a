// Parses a tokens file, or a list of allowed names followed by a NUL and a
// certificate's name. The first byte selects which.
#include <string>
#include <string_view>
#include <vector>

#include "core/common/bearer_token.h"
#include "server/security/client_names.h"
#include "server/security/token_set.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

// Checks that adding a valid line adds one token and does not change whether
// the file is valid.
void CheckTokens(const std::string& text) {
  constexpr std::string_view kToken = "a token of a tokens file";
  const Result<TokenSet> set = TokenSet::Parse(text);
  const TokenHash hash = HashToken(kToken);
  const Result<TokenSet> more =
      TokenSet::Parse(text + "\nfuzz:" + ToHex(hash) + "\n");
  if (!set.ok()) {
    Require(!set.status().message.empty(), "an error has a message");
    // The line makes an invalid file valid only if the file had no tokens.
    Require(!more.ok() || set.status().message == "the file has no tokens",
            "a bad line stays bad");
    return;
  }
  const std::string* found = set->Find(kToken);
  if (!more.ok()) {  // the token is already listed, or there are too many
    Require(found != nullptr || text.size() > 64000, "a good line is good");
    return;
  }
  Require(found == nullptr && *more->Find(kToken) == "fuzz",
          "a token is found when it is there");
}

void CheckNames(std::string_view text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string name(text.substr(std::min(end + 1, text.size())));
  std::vector<std::string> names;
  for (std::string_view rest = text.substr(0, end); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    names.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  const Result<AllowedNames> all = AllowedNames::Parse(names);
  bool each = true;
  for (const std::string& one : names) each &= CheckAllowedName(one).ok();
  Require(all.ok() == each, "names are good together if each is");
  if (!all.ok()) return;
  Require(all->empty() == names.empty(), "no name is lost");
  for (const NameKind kind :
       {NameKind::kDns, NameKind::kUri, NameKind::kEmail, NameKind::kIp}) {
    bool any = false;
    for (const std::string& one : names) {
      any |= AllowedNames::Parse({one})->Match({kind, name});
    }
    Require(all->Match({kind, name}) == any, "one of them is enough");
  }
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  const bool names = input.Flag();
  const std::string rest(input.Rest());
  if (names) {
    topk::testing::CheckNames(rest);
  } else {
    topk::testing::CheckTokens(rest);
  }
  return 0;
}
