// Makes a line of the tokens file.
#pragma once

#include <iosfwd>
#include <string>

#include "core/base/status.h"

namespace topk {

/// Reads a token and returns its line of --auth-tokens-file, without its end.
/// An end of line after the token is ignored. INVALID_ARGUMENT for a name
/// or a token that cannot be one.
Result<std::string> HashTokenLine(const std::string& name, std::istream& in);

/// topkd hash-token: prints the line of the token on stdin. Returns the exit
/// status: 0, or 1 after saying why not.
int RunHashToken(const std::string& name);

}  // namespace topk
