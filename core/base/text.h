// Text utilities, mainly for error messages.
#pragma once

#include <algorithm>
#include <cctype>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace topk {

/// Appends text, or a number in decimal.
inline void AppendText(std::string& out, std::string_view piece) {
  out += piece;
}
template <std::integral Integer>
void AppendText(std::string& out, Integer number) {
  out += std::to_string(number);
}

/// Concatenates strings and integers.
template <class... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  (AppendText(out, pieces), ...);
  return out;
}

/// Returns the message of an errno value. Thread-safe, unlike strerror().
inline std::string ErrnoText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

/// Quotes untrusted text for a message. Truncates the text to 64 bytes and
/// replaces bytes other than printable ASCII with '?'.
inline std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 64)) {
    quoted += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return quoted + (text.size() > 64 ? "...\"" : "\"");
}

/// Returns `text` without leading and trailing spaces.
inline std::string_view Trimmed(std::string_view text,
                                std::string_view spaces = " \t") {
  const size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) + 1 - first);
}

/// Returns ASCII text in lowercase.
inline std::string InLowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return lower;
}

/// Returns two lowercase hex digits for each byte.
inline std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

/// Returns the length in bytes of the first character of nonempty UTF-8 text.
/// Returns 0 if the character is unsafe to print, i.e. a control character, a
/// bidirectional formatting character or an invalid byte.
inline size_t PrintableLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first < 0xc0 || first > 0xf4 || text.size() < length) return 0;
  uint32_t code = first & (0x7f >> length);
  for (const char c : text.substr(1, length - 1)) {
    if ((c & 0xc0) != 0x80) return 0;
    code = code << 6 | (c & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0xa0, 0x800, 0x10000};  // else overlong
  const auto within = [code](uint32_t low, uint32_t high) {
    return code >= low && code <= high;
  };
  const bool surrogate = within(0xd800, 0xdfff);
  const bool reorders = within(0x200e, 0x200f) || within(0x202a, 0x202e) ||
                        within(0x2066, 0x2069);
  return within(kLeast[length - 2], 0x10ffff) && !surrogate && !reorders
             ? length
             : 0;
}

/// Escapes untrusted text for a terminal or a log: control characters,
/// bidirectional formatting characters and invalid UTF-8 bytes become \xNN.
inline std::string EscapeControls(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t length = PrintableLength(text);
    if (length > 0) {
      escaped += text.substr(0, length);
    } else {
      escaped += "\\x" + HexOf(text.substr(0, 1));
    }
    text.remove_prefix(std::max(length, size_t{1}));
  }
  return escaped;
}

}  // namespace topk
