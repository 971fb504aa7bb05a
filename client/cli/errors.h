// Exit statuses and error messages of the `topk` command.
#pragma once

#include <string>

#include "topk/status.h"

namespace topk::cli {

/// Scripts may rely on these values.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,            // any other failure, e.g. a file cannot be written
  kUsage = 2,             // invalid command line
  kInputFile = 3,         // the input cannot be read or is not a tensor
  kRejected = 4,          // the server rejected the request
  kUnavailable = 5,       // server unavailable, or deadline exceeded
  kWrongAnswer = 6,       // the response differs from the local result
  kRateMissed = 7,        // bench: the callers could not keep up with --rate
  kThresholdCrossed = 8,  // bench: --max-p99 or --max-errors is exceeded
  kInterrupted = 130,     // bench: SIGINT or SIGTERM; the report is partial
};

/// Describes the exit statuses, for --help and the manual page.
inline constexpr char kExitStatusText[] =
    "For the flags of a command, see for example topk run --help. "
    "Data is written to stdout, messages to stderr. Exit status: 0 success, 1 "
    "failure, 2 invalid command line, 3 unusable input file, 4 rejected by the "
    "server, 5 server unavailable or deadline exceeded, 6 incorrect response, "
    "7 rate of bench not kept, 8 limit of bench exceeded, 130 interrupted.";

/// Prints the error of a call or of a local computation, and returns the exit
/// status for the error.
ExitCode Report(const Status& status);

/// Prints why an input cannot be used.
ExitCode ReportInput(const std::string& path, const Status& status);

/// Prints why the command line is invalid.
ExitCode ReportUsage(const Status& status);

}  // namespace topk::cli
