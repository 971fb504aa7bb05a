// Parses and formats numbers in flags, settings and files.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace topk {

/// Parses the whole text as a decimal number. Returns nullopt if the text is
/// malformed, or if the number does not fit its type or is not finite.
template <class Number = double>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number)) return {};
  return number;
}

/// Returns the shortest text that ParseNumber() parses to the same number.
template <class Number>
std::string NumberText(Number number) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return {text, end};
}

}  // namespace topk
