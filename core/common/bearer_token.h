// Validates and hashes bearer tokens.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "topk/status.h"

namespace topk {

/// The SHA-256 hash of a token. Tokens are random, so the hash needs no salt
/// and need not be slow, unlike a password hash.
using TokenHash = std::array<unsigned char, 32>;

/// Checks that the token has at least 16 characters, all of which a header can
/// carry (RFC 6750: letters, digits and -._~+/=).
Status CheckToken(std::string_view token);

/// Returns the hash of `token`.
TokenHash HashToken(std::string_view token);

/// Returns the hash in lowercase hexadecimal.
std::string ToHex(const TokenHash& hash);

/// Removes spaces and line breaks from both ends of a file's content.
std::string_view TrimToken(std::string_view content);

}  // namespace topk
