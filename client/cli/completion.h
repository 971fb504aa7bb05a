// topk completion: a script that lets a shell complete the command.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace topk::cli {

/// A shell that can complete: one row of a table.
struct CompletingShell {
  std::string_view name;
  /// Returns the script: the app's commands, flags and their values.
  std::string (*script)(const CLI::App& app);
};

/// Returns the whole table.
std::span<const CompletingShell> CompletingShells();

}  // namespace topk::cli
