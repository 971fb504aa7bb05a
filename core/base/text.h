// The little text making that error messages need.
#pragma once

#include <concepts>
#include <cstring>
#include <string>
#include <string_view>

namespace topk {

/// Appends a piece of text or the decimal form of a number.
inline void AppendText(std::string& out, std::string_view piece) {
  out += piece;
}
template <std::integral Integer>
void AppendText(std::string& out, Integer number) {
  out += std::to_string(number);
}

/// Returns its arguments, texts and integers, written one after another.
template <class... Pieces>
std::string Cat(const Pieces&... pieces) {
  std::string out;
  (AppendText(out, pieces), ...);
  return out;
}

/// Returns the C library's words for an errno; unlike strerror for any thread.
inline std::string ErrnoText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

/// Returns a stranger's text for a message: in quotes, cut to 64 bytes, and '?'
/// for all that is not printable ASCII.
inline std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 64)) {
    quoted += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return quoted + (text.size() > 64 ? "...\"" : "\"");
}

}  // namespace topk
