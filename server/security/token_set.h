// The tokens that a server knows, by their hashes.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/status.h"
#include "core/security/bearer_token.h"

namespace topk {

/// Hashes of tokens and whose they are.
class TokenSet {
 public:
  /// Reads lines `name:sha256-of-the-token-in-hex`; empty ones and those that
  /// begin with # are skipped. A name has 1 .. 64 letters, digits and -._@ and
  /// may have several tokens, so that one can be replaced. INVALID_ARGUMENT,
  /// naming the line and the rule, for any other line and for a token that is
  /// listed twice; also if there is no token.
  static Result<TokenSet> Parse(std::string_view text);

  /// Returns the name of a token's owner, or null. The time depends on the
  /// token's hash alone, from which nobody can infer a token.
  const std::string* Find(std::string_view token) const;

 private:
  // A part of a SHA-256 is a good hash.
  struct Prefix {
    size_t operator()(const TokenHash& hash) const {
      size_t prefix;
      std::memcpy(&prefix, hash.data(), sizeof(prefix));
      return prefix;
    }
  };

  std::unordered_map<TokenHash, std::string, Prefix> names_;
};

/// Returns the line of a tokens file for a token, without its end of line.
/// White space around the token is ignored. INVALID_ARGUMENT for a name or a
/// token that is not valid.
Result<std::string> HashTokenLine(std::string_view name,
                                  std::string_view token);

}  // namespace topk
