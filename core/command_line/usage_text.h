// Formats command-line errors of topkd and topk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace topk {

/// The properties of a flag that UsageText() needs.
struct UsageFlag {
  /// CLI11's name for the type of the value, e.g. "INT"; "" for a switch.
  std::string type;
  /// The source of the value: the flag, an environment variable, or a line of a
  /// config file.
  std::string source;
};

/// Rewrites the message of a CLI11 error to name the value, the source of the
/// value and the rule. `find` returns the flag with a name such as "--threads".
/// Does not change messages of this project's validators.
std::string UsageText(const std::string& message,
                      const std::function<UsageFlag(const std::string&)>& find);

/// Checks that `text` is a whole number from `least` to `most`, and rewrites
/// `text` in canonical form. Returns an error or "". CLI11 itself would clamp
/// numbers beyond int64_t, read "" as 0, and read 010 as octal.
std::string CheckWhole(std::string& text, int64_t least, int64_t most);

/// Returns whether the arguments set a flag, as `--flag value` or
/// `--flag=value`.
bool IsArgument(int argc, const char* const* argv, std::string_view flag);

}  // namespace topk
