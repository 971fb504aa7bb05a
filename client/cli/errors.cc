#include "client/cli/errors.h"

#include <climits>
#include <iostream>

#include "core/base/text.h"

namespace topk::cli {

ExitCode Report(const Status& status) {
  std::cerr << "topk: " << CodeName(status.code);
  if (!status.field.empty()) std::cerr << ": " << EscapeControls(status.field);
  std::cerr << ": ";
  std::cerr << EscapeControls(status.message);
  if (!status.reason.empty()) {
    std::cerr << " [" << EscapeControls(status.reason) << "]";
  }
  if (status.retry_after.count() > 0) {
    std::cerr << "; retry in " << status.retry_after.count() << " ms";
  }
  std::cerr << "\n";
  switch (status.code) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
    case Code::kResourceExhausted:
    case Code::kNotFound:
    case Code::kFailedPrecondition:
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

ExitCode ReportInput(const std::string& path, const Status& status) {
  std::cerr << "topk: " << EscapeControls(path.substr(0, PATH_MAX)) << ": "
            << EscapeControls(status.message) << "\n";
  return kInputFile;
}

ExitCode ReportUsage(const Status& status) {
  std::cerr << "topk: " << EscapeControls(status.message) << "\n";
  return kUsage;
}

}  // namespace topk::cli
