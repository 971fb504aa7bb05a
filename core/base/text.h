// The little text making that error messages need.
#pragma once

#include <concepts>
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

}  // namespace topk
