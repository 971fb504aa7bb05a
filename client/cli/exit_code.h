// What the command's exit status means.
#pragma once

#include <iostream>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace topk::cli {

/// The exit statuses of `topk`; its --help says the same.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // anything else, e.g. a file that cannot be written
  kUsage = 2,        // the command line
  kInputFile = 3,    // the input cannot be read or is no tensor
  kRejected = 4,     // the server refused the request
  kUnavailable = 5,  // no server, or no answer in time
  kWrongAnswer = 6,  // bench: an answer differs from the one computed here
};

/// Says on stderr what went wrong in a call or a computation, and returns the
/// exit status that it means. `request_id` is what the server's log has it by.
inline ExitCode Report(const Status& status, std::string_view request_id = "") {
  std::cerr << "topk: " << CodeName(status.code);
  if (!status.field.empty()) std::cerr << ": " << status.field;
  std::cerr << ": " << status.message;
  if (!status.reason.empty()) std::cerr << " [" << status.reason << "]";
  if (!request_id.empty()) std::cerr << " (request " << request_id << ")";
  if (status.retry_after.count() > 0) {
    std::cerr << "; try again in " << status.retry_after.count() << " ms";
  }
  std::cerr << "\n";
  switch (status.code) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
    case Code::kResourceExhausted:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
      return kRejected;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kUnavailable;
    default:
      return kFailed;
  }
}

/// Says on stderr why an input cannot be used.
inline ExitCode ReportInput(const std::string& path, const Status& status) {
  std::cerr << "topk: " << path << ": " << status.message << "\n";
  return kInputFile;
}

}  // namespace topk::cli
