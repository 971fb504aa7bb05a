// How --help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace topk::cli {

/// Returns CLI11's own look in lines that fit the terminal.
std::shared_ptr<CLI::FormatterBase> HelpFormatter();

}  // namespace topk::cli
