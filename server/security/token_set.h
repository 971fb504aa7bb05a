// The set of tokens that the server accepts, stored as hashes.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/common/bearer_token.h"
#include "topk/status.h"

namespace topk {

/// Maps token hashes to the owners of the tokens.
class TokenSet {
 public:
  /// Parses lines of the form `name:sha256-of-the-token-in-hex`. Skips empty
  /// lines and lines that begin with #. A name has 1 to 64 letters, digits or
  /// -._@ characters. A name may have several tokens, so that a token can be
  /// replaced. Returns INVALID_ARGUMENT, with the line number and the rule, if
  /// a line is malformed, a token is listed twice, or there are no tokens.
  static Result<TokenSet> Parse(std::string_view text);

  /// Returns the name of the token's owner, or null if the token is unknown.
  /// The lookup time may reveal parts of the token's hash, but not the token.
  const std::string* Find(std::string_view token) const;

 private:
  std::map<TokenHash, std::string> names_;
};

/// Returns the line to add to the tokens file for `token`, without a newline.
/// Ignores white space around the token. Returns INVALID_ARGUMENT if `name` or
/// `token` is invalid.
Result<std::string> HashTokenLine(std::string_view name,
                                  std::string_view token);

}  // namespace topk
