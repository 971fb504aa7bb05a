// Prints errors to stderr.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/exit_code.h"
#include "topk/client.h"
#include "topk/status.h"

namespace topk::cli {

/// Returns true if the call could not connect, or false if its connection broke
/// later. REQUIRES: `status` is UNAVAILABLE without a reason.
bool IsConnectFailure(const Status& status);

/// Prints the error of a call, or of a local computation if `client` is null.
/// Returns the exit status for the error.
/// `request_id` identifies the request in the server's log.
ExitCode Report(const Status& status, const ClientOptions* client,
                std::string_view request_id = "");

/// Prints why an input cannot be used.
ExitCode ReportInput(const std::string& path, const Status& status);

/// Prints why the command line is invalid.
ExitCode ReportUsage(const Status& status);

}  // namespace topk::cli
