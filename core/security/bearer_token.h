// Validates and hashes bearer tokens.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace topk {

/// The SHA-256 of a token. Unlike a password hash, it is neither salted nor
/// slow: tokens are random.
using TokenHash = std::array<unsigned char, 32>;

/// Returns OK if a header can carry the token (RFC 6750: letters, digits and
/// -._~+/=) and if the token is too long to be guessed: at least 16 characters.
Status CheckToken(std::string_view token);

/// Returns the hash of `token`.
TokenHash HashToken(std::string_view token);

/// Returns the hash in lowercase hexadecimal.
std::string ToHex(const TokenHash& hash);

/// Strips spaces and line breaks from both ends of a file's content.
std::string_view TrimToken(std::string_view content);

}  // namespace topk
