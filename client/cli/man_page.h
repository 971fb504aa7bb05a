// topk man: the manual page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace topk::cli {

/// Returns topk(1) in the man macros of roff: what --help says of the app and
/// of each command.
std::string ManPage(const CLI::App& app, std::string_view version);

}  // namespace topk::cli
