// The exit statuses of the command.
#pragma once

namespace topk::cli {

/// The exit statuses of `topk`.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,         // anything else, e.g. a file that cannot be written
  kUsage = 2,          // the command line
  kInputFile = 3,      // the input cannot be read or is no tensor
  kRejected = 4,       // the server refused the request
  kUnavailable = 5,    // unavailable, or the deadline was exceeded
  kWrongAnswer = 6,    // an answer differs from the one computed here
  kRateMissed = 7,     // bench: the callers could not keep up with --rate
  kInterrupted = 130,  // bench: SIGINT or SIGTERM; the report is of until then
};

/// The same in words, for --help and the manual page.
inline constexpr char kExitStatusText[] =
    "Data is written to stdout, messages to stderr. Exit status: 0 success, 1 "
    "failure, 2 invalid command line, 3 unusable input file, 4 rejected by the "
    "server, 5 server unavailable or deadline exceeded, 6 incorrect response, "
    "7 rate of bench not kept, 130 interrupted.";

}  // namespace topk::cli
