// topk completion: a script that lets bash complete the command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace topk::cli {

/// Returns the script: the sub-commands and flags that the app has.
std::string BashCompletion(const CLI::App& app);

}  // namespace topk::cli
