// The commands and flags as CLI11 holds them. Completion, the manual page and
// --help are generated from these, so that they cannot go stale.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace topk::cli {

/// The type names of flags that take a file's or a folder's name; completion
/// offers existing ones.
inline constexpr char kFile[] = "FILE";
inline constexpr char kFolder[] = "DIR";

/// Returns the sub-commands in the order of --help.
std::vector<const CLI::App*> CommandsOf(const CLI::App& app);

/// Returns the options that have a name with dashes, or the other ones.
std::vector<const CLI::Option*> FlagsOf(const CLI::App& command);
std::vector<const CLI::Option*> PositionalsOf(const CLI::App& command);

/// Returns the names with their dashes, e.g. {"-h", "--help"}.
std::vector<std::string> NamesOf(const CLI::Option& option);

/// Returns whether a value follows.
bool TakesValue(const CLI::Option& option);

/// Returns the kind of value: "FILE", "INT", .., without its choices or range.
std::string ValueOf(const CLI::Option& option);

/// Returns the values that an option takes, if they are a list.
std::vector<std::string> ChoicesOf(const CLI::Option& option);

/// Returns a description up to its first clause's end.
std::string Briefly(const std::string& description);

}  // namespace topk::cli
