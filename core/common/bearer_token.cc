#include "core/common/bearer_token.h"

#include <openssl/sha.h>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kMinTokenLength = 16;

constexpr std::string_view kCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

}  // namespace

Status CheckToken(std::string_view token) {
  // Error messages must not contain any part of the token.
  if (token.find_first_not_of(kCharacters) != token.npos) {
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
  return HexOf({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

std::string_view TrimToken(std::string_view content) {
  return Trimmed(content, " \t\r\n");
}

}  // namespace topk
