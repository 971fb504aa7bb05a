// The tokens that a server knows, by their hashes.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/security/bearer_token.h"

namespace topk {

/// The owners of tokens, by the hashes of the tokens.
class TokenSet {
 public:
  /// Parses lines `name:sha256-of-the-token-in-hex`; skips empty lines and
  /// those that begin with #. A name has 1 .. 64 letters, digits and -._@, and
  /// may have several tokens, so that a token can be replaced.
  /// INVALID_ARGUMENT, naming the line and the rule, for any other line, for a
  /// token that is listed twice, and if there is no token.
  static Result<TokenSet> Parse(std::string_view text);

  /// Returns the name of a token's owner, or null. The time of the search tells
  /// at most about the token's hash, from which nobody can infer a token.
  const std::string* Find(std::string_view token) const;

 private:
  std::map<TokenHash, std::string> names_;
};

/// Returns the line of a tokens file for a token, without its end of line.
/// White space around the token is ignored. INVALID_ARGUMENT for a name or a
/// token that is not valid.
Result<std::string> HashTokenLine(std::string_view name,
                                  std::string_view token);

}  // namespace topk
