// Text utilities, mainly for error messages.
#pragma once

#include <algorithm>
#include <cctype>
#include <concepts>
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

/// Quotes untrusted text for a message. Truncates it to 64 bytes and replaces
/// bytes other than printable ASCII with '?'.
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

/// Returns a byte as two lowercase hex digits.
inline std::string HexOf(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {kDigits[byte >> 4], kDigits[byte & 15]};
}

/// Escapes untrusted text for a terminal or a log: control characters,
/// bidirectional formatting characters and invalid UTF-8 bytes become \xNN.
inline std::string EscapeControls(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  std::string escaped;
  for (size_t i = 0; i < text.size();) {
    const int first = byte(i);
    const size_t length = first < 0x80    ? 1
                          : first < 0xc2  ? 0
                          : first < 0xe0  ? 2
                          : first < 0xf0  ? 3
                          : first <= 0xf4 ? 4
                                          : 0;
    bool printable = length > 0 && first >= 0x20 && first != 0x7f;
    for (size_t j = 1; j < length; ++j) {
      printable = printable && (byte(i + j) & 0xc0) == 0x80;
    }
    // Overlong forms, surrogates, and code points above U+10FFFF.
    if ((first == 0xe0 && byte(i + 1) < 0xa0) ||
        (first == 0xed && byte(i + 1) >= 0xa0) ||
        (first == 0xf0 && byte(i + 1) < 0x90) ||
        (first == 0xf4 && byte(i + 1) >= 0x90)) {
      printable = false;
    }
    // U+0080 .. U+009F are control characters too.
    if (first == 0xc2 && byte(i + 1) < 0xa0) printable = false;
    // U+200E, U+200F, U+202A .. U+202E and U+2066 .. U+2069 reorder text.
    const int last = byte(i + 2);
    if (first == 0xe2 && byte(i + 1) == 0x80 &&
        (last == 0x8e || last == 0x8f || (last >= 0xaa && last <= 0xae))) {
      printable = false;
    }
    if (first == 0xe2 && byte(i + 1) == 0x81 && last >= 0xa6 && last <= 0xa9) {
      printable = false;
    }
    if (printable) {
      escaped += text.substr(i, length);
      i += length;
      continue;
    }
    escaped += "\\x" + HexOf(static_cast<unsigned char>(first));
    ++i;
  }
  return escaped;
}

}  // namespace topk
