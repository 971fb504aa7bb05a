// What went wrong, on stderr, and what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/exit_code.h"
#include "client/topk_client.h"
#include "core/base/status.h"

namespace topk::cli {

/// Returns what a user can do about the failure of a call that was made with
/// these options, e.g. which flag to give, or "".
std::string Advice(const Status& status, const ClientOptions& client);

/// Says what went wrong in a call, or a computation if `client` is null, with
/// the advice on a line of its own, and returns the exit status that it means.
/// `request_id` is what the server's log has it by.
ExitCode Report(const Status& status, const ClientOptions* client,
                std::string_view request_id = "");

/// Says why an input cannot be used; of a file that does not exist, where it
/// was looked for.
ExitCode ReportInput(const std::string& path, const Status& status);

/// Says what is wrong with the command line.
ExitCode ReportUsage(const Status& status);

}  // namespace topk::cli
