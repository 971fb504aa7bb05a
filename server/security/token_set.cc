#include "server/security/token_set.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "core/base/text.h"

namespace topk {
namespace {

bool IsNameCharacter(unsigned char c) {
  return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == '@';
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

}  // namespace

Result<TokenSet> TokenSet::Parse(std::string_view text) {
  TokenSet set;
  int number = 0;
  const auto invalid_line = [&number](std::string_view rule) {
    return InvalidArgument("TOKENS_FILE", "",
                           StrCat("line ", number, ": ", rule));
  };
  std::istringstream lines{std::string(text)};
  for (std::string untrimmed; std::getline(lines, untrimmed);) {
    ++number;
    const std::string_view line = TrimToken(untrimmed);
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    TokenHash hash;
    // Do not quote the line in the message: it may be a token.
    if (colon == std::string_view::npos ||
        !ReadHash(line.substr(colon + 1), hash)) {
      return invalid_line(
          "not name:SHA-256 with 64 hexadecimal digits; use topkd "
          "hash-token to print a line");
    }
    const std::string_view name = line.substr(0, colon);
    if (const Status s = CheckTokenName(name); !s.ok()) {
      return invalid_line(s.message);
    }
    if (!set.names_.try_emplace(hash, name).second) {
      return invalid_line("this token is already listed");
    }
  }
  if (set.names_.empty()) {
    return InvalidArgument("TOKENS_FILE", "", "the file has no tokens");
  }
  return set;
}

const std::string* TokenSet::Find(std::string_view token) const {
  const auto found = names_.find(HashToken(token));
  return found == names_.end() ? nullptr : &found->second;
}

Result<std::string> HashTokenLine(std::string_view name,
                                  std::string_view token) {
  if (Status s = CheckTokenName(name); !s.ok()) return s;
  token = TrimToken(token);
  if (Status s = CheckToken(token); !s.ok()) return s;
  return StrCat(name, ":", ToHex(HashToken(token)));
}

}  // namespace topk
