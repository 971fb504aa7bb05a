// How wide a terminal is, and texts that fit it. There are no colours.
#pragma once

#include <string>
#include <string_view>

namespace topk::cli {

/// What a text is written for where there is no terminal.
inline constexpr int kDefaultColumns = 80;

/// Returns how many columns the terminal on stdout has; 0 if there is none.
int TerminalColumns();

/// Returns the text with line ends in place of spaces, so that no line is
/// longer than `columns`, but for a word that is; every line but the first one
/// begins with `indent` spaces, and the first one is taken to begin after
/// `indent` columns too. 0 columns: as it is.
std::string Wrapped(std::string_view text, int columns, int indent);

}  // namespace topk::cli
