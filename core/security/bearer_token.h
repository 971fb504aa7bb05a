// Bearer tokens: what one is, and how a server remembers it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace topk {

/// The SHA-256 of a token. Not salted or slow, as passwords need it: tokens are
/// random.
using TokenHash = std::array<unsigned char, 32>;

/// Returns OK for a token that a header can carry (RFC 6750: letters, digits
/// and -._~+/=) and that is too long to be guessed: 16 characters or more.
Status CheckToken(std::string_view token);

/// Returns the hash of any text.
TokenHash HashToken(std::string_view token);

/// Returns the hash in lower-case hexadecimal.
std::string ToHex(const TokenHash& hash);

/// Returns the token of a file's content: all of it but spaces and ends of
/// lines around it.
std::string_view TrimToken(std::string_view content);

}  // namespace topk
