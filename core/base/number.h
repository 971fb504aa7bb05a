// Numbers in texts that people write: flags, settings, files.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace topk {

/// Returns the number that the whole text is, or nothing if the text is not a
/// decimal number or the number is not finite: NaN passes comparisons that are
/// meant to reject it.
inline std::optional<double> ParseNumber(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number)) return {};
  return number;
}

/// Returns the shortest text that ParseNumber() reads as the same number.
inline std::string NumberText(double number) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return {text, end};
}

}  // namespace topk
