#include "client/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace topk::cli {

int TerminalColumns() {
  winsize size{};
  const bool known =
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : isatty(STDOUT_FILENO) ? kDefaultColumns : 0;
}

std::string Wrapped(std::string_view text, int columns, int indent) {
  if (columns == 0) return std::string(text);
  const auto width = static_cast<size_t>(std::max(columns - indent, 1));
  std::string out;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = text.find(' ', 1);
    if (end == std::string_view::npos) break;
    out += text.substr(0, end);
    out += "\n" + std::string(static_cast<size_t>(indent), ' ');
    text.remove_prefix(end + 1);
  }
  return out.append(text);
}

}  // namespace topk::cli
