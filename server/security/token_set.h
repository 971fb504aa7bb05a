// The tokens that a server knows, by their hashes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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
  /// listed twice; also if there is no token, or more than 1000.
  static Result<TokenSet> Parse(std::string_view text);

  /// Returns whose token it is, or null. Takes as long whatever the token is.
  const std::string* Find(std::string_view token) const;

 private:
  struct Entry {
    std::string name;
    TokenHash hash;
  };
  std::vector<Entry> entries_;
};

/// Returns OK for a name as Parse() has it.
Status CheckTokenName(std::string_view name);

}  // namespace topk
