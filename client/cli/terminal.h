// How wide a terminal is, and texts that fit it. There are no colours.
#pragma once

#include <string>
#include <string_view>

namespace topk::cli {

/// The width of text if stdout is not a terminal.
inline constexpr int kDefaultColumns = 80;

/// Returns the number of columns of the terminal on stdout; 0 if stdout is not
/// a terminal.
int TerminalColumns();

/// Wraps the text at spaces, so that no line is longer than `columns`, unless a
/// single word is. Every line except the first begins with `indent` spaces; the
/// first is assumed to begin after `indent` columns. Returns the text unchanged
/// for 0 columns.
std::string Wrapped(std::string_view text, int columns, int indent);

}  // namespace topk::cli
