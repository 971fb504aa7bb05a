#include "server/security/token_set.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/text.h"

namespace topk {
namespace {

// Each call's token is compared with all of them, which takes 30 us for the
// maximum.
constexpr size_t kMaxTokens = 1000;

bool IsNameCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '@';
}

bool ReadHash(std::string_view hex, TokenHash& hash) {
  if (hex.size() != 2 * hash.size()) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    const char* begin = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, hash[i], 16);
    if (error != std::errc() || end != begin + 2) return false;
  }
  return true;
}

}  // namespace

Status CheckTokenName(std::string_view name) {
  if (!name.empty() && name.size() <= 64 &&
      std::ranges::all_of(name, IsNameCharacter)) {
    return {};
  }
  return InvalidArgument(
      "TOKEN_NAME", "name",
      StrCat(Quote(name),
             " is not a name of 1 .. 64 letters, digits and -._@"));
}

Result<TokenSet> TokenSet::Parse(std::string_view text) {
  TokenSet set;
  std::set<TokenHash> seen;
  int number = 0;
  const auto bad = [&number](std::string_view what) {
    return InvalidArgument("TOKENS_FILE", "",
                           StrCat("line ", number, ": ", what));
  };
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = TrimToken(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    Entry entry;
    // The line may be a token that somebody put there: it is not repeated.
    if (colon == std::string_view::npos ||
        !ReadHash(line.substr(colon + 1), entry.hash)) {
      return bad(
          "it is not name:SHA-256 with 64 hexadecimal digits, as topkd "
          "hash-token prints it");
    }
    entry.name = line.substr(0, colon);
    if (const Status s = CheckTokenName(entry.name); !s.ok()) {
      return bad(s.message);
    }
    if (!seen.insert(entry.hash).second) {
      return bad("this token is there already: whose is it?");
    }
    if (set.entries_.size() == kMaxTokens) {
      return bad(StrCat("there are more than ", kMaxTokens, " tokens"));
    }
    set.entries_.push_back(std::move(entry));
  }
  if (set.entries_.empty()) {
    return InvalidArgument("TOKENS_FILE", "", "it has no token");
  }
  return set;
}

const std::string* TokenSet::Find(std::string_view token) const {
  const TokenHash hash = HashToken(token);
  const std::string* name = nullptr;
  // To the end, found or not.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(hash.data(), entry.hash.data(), hash.size()) == 0) {
      name = &entry.name;
    }
  }
  return name;
}

}  // namespace topk
