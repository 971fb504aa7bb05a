// Formats command-line errors of topkd and topk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace topk {

/// Returns the source of a flag's value: the flag, such as "--threads", or an
/// environment variable.
using FindSource = std::function<std::string(const std::string& flag)>;

/// Replaces the flag at the start of a CLI11 error message with the source of
/// its value. Every numeric flag needs one of our validators, because CLI11's
/// messages about numbers are poor.
std::string UsageText(const std::string& message, const FindSource& find);

/// Checks that `text` is a whole number from `least` to `most`, and rewrites
/// `text` in canonical form. Returns an error or "". CLI11 itself would clamp
/// numbers beyond int64_t, read "" as 0, and read 010 as octal.
std::string CheckWhole(std::string& text, int64_t least, int64_t most);

/// Checks the value of a switch such as --tls. Returns an error or "". Accepts
/// words, which CLI11 checks, 0 and 1. CLI11 itself would read all other
/// numbers as true or false, too.
std::string CheckSwitch(const std::string& text);

/// Returns the first flag with an empty value, as in `--flag=` or `--flag=,`,
/// or
/// "". CLI11 would turn on a switch, or take the next argument as the value.
std::string EmptyFlag(int argc, const char* const* argv);

/// Returns whether the arguments set a flag, as `--flag value` or
/// `--flag=value`.
bool IsArgument(int argc, const char* const* argv, std::string_view flag);

}  // namespace topk
