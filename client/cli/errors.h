// Error messages on stderr, with advice.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/exit_code.h"
#include "core/base/status.h"
#include "topk/client.h"

namespace topk::cli {

/// Returns what a user can do about the failure of a call that was made with
/// these options, e.g. which flag to give, or "".
std::string Advice(const Status& status, const ClientOptions& client);

/// Returns whether a call was not sent because there was no connection; its
/// connection broke otherwise. REQUIRES: UNAVAILABLE, without a reason.
bool IsConnectFailure(const Status& status);

/// Prints the error of a call, or of a local computation if `client` is null,
/// with advice on a second line, and returns the exit status for it.
/// `request_id` identifies the request in the server's log.
ExitCode Report(const Status& status, const ClientOptions* client,
                std::string_view request_id = "");

/// Prints why an input cannot be used; for a file that does not exist, also the
/// folder in which it was searched.
ExitCode ReportInput(const std::string& path, const Status& status);

/// Prints an error of the command line.
ExitCode ReportUsage(const Status& status);

}  // namespace topk::cli
