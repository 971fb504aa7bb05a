// The terminal's width, and text wrapping.
#pragma once

#include <string>
#include <string_view>

namespace topk::cli {

/// The text width if stdout is not a terminal.
inline constexpr int kDefaultColumns = 80;

/// Returns the number of columns of the terminal on stdout; 0 if stdout is not
/// a terminal.
int TerminalColumns();

/// Wraps the text at spaces. No line is longer than `columns`, unless it is a
/// single word. Indents every line except the first, which is assumed to start
/// at column `indent`. Returns the text unchanged if `columns` is 0.
std::string Wrapped(std::string_view text, int columns, int indent);

}  // namespace topk::cli
