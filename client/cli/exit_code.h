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
  kUnavailable = 5,    // no server, or no answer in time
  kWrongAnswer = 6,    // an answer differs from the one computed here
  kInterrupted = 130,  // bench: SIGINT or SIGTERM; the report is of until then
};

/// The same in words, for --help and the manual page.
inline constexpr char kExitStatusText[] =
    "Data goes to stdout, all else to stderr. Exit status: 0 done, 1 failed, 2 "
    "wrong command line, 3 input file, 4 refused by the server, 5 no server or "
    "no answer in time, 6 wrong answer, 130 interrupted.";

}  // namespace topk::cli
