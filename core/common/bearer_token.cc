#include "core/common/bearer_token.h"

#include <openssl/sha.h>

#include <algorithm>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kMinTokenLength = 16;

bool MayBeInToken(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

}  // namespace

Status CheckToken(std::string_view token) {
  // Error messages must not contain any part of the token.
  if (!std::ranges::all_of(token, MayBeInToken)) {
    return InvalidArgument(
        "TOKEN", "token",
        "a token must consist of letters, digits and -._~+/=");
  }
  if (token.size() < kMinTokenLength) {
    return InvalidArgument(
        "TOKEN", "token",
        StrCat("a token of ", token.size(),
               " characters is too short; use at least ", kMinTokenLength,
               ", e.g. from: openssl rand -hex 32"));
  }
  return {};
}

TokenHash HashToken(std::string_view token) {
  TokenHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         hash.data());
  return hash;
}

std::string ToHex(const TokenHash& hash) {
  std::string hex;
  for (const unsigned char byte : hash) hex += HexOf(byte);
  return hex;
}

std::string_view TrimToken(std::string_view content) {
  return Trimmed(content, " \t\r\n");
}

}  // namespace topk
