// The commands of topk.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/errors.h"
#include "topk/client.h"

namespace topk::cli {

/// Each function adds a command to `app`. If the command is in the command
/// line, app.parse() runs it and sets `status`.
void AddRun(CLI::App& app, ExitCode& status);
void AddMerge(CLI::App& app, ExitCode& status);
void AddHealth(CLI::App& app, ExitCode& status);
void AddInfo(CLI::App& app, ExitCode& status);
void AddBench(CLI::App& app, ExitCode& status);

/// Adds the flags for a client to a command. `client` must outlive `command`.
void AddClientFlags(CLI::App& command, ClientOptions& client);

/// Prints the first error in the options and returns kUsage. Returns kOk if
/// there is none.
ExitCode CheckClientFlags(const ClientOptions& client);

}  // namespace topk::cli
