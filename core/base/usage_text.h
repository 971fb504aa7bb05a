// Texts of command line errors, for topkd and topk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace topk {

/// A flag of a command line.
struct UsageFlag {
  /// CLI11's name of the type of its value, e.g. "INT"; "" for a switch.
  std::string type;
  /// Where its value was set: the flag, an environment variable, or the line of
  /// a config file.
  std::string source;
};

/// Rewrites the message of a CLI11 error: it names where the value was set, the
/// value, and the rule. `find` returns the flag of a name such as "--threads".
/// Messages of the project's own validators keep their text.
std::string UsageText(const std::string& message,
                      const std::function<UsageFlag(const std::string&)>& find);

/// Rewrites text as the whole number that it is. Returns the rule that it
/// breaks, or "". CLI11 clamps a number that int64_t cannot hold, and takes ""
/// for 0 and 010 for octal.
std::string CheckWhole(std::string& text, int64_t least, int64_t most);

/// Whether the arguments set a flag, as `--flag value` or `--flag=value`.
bool IsArgument(int argc, const char* const* argv, std::string_view flag);

}  // namespace topk
