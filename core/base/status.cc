#include "core/base/status.h"

namespace topk {
namespace {

Status Make(Code code, std::string_view reason, std::string_view field,
            std::string message) {
  return {code, std::string(reason), std::string(field), std::move(message)};
}

}  // namespace

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Status InvalidArgument(std::string_view reason, std::string_view field,
                       std::string message) {
  return Make(Code::kInvalidArgument, reason, field, std::move(message));
}

Status Unimplemented(std::string_view reason, std::string_view field,
                     std::string message) {
  return Make(Code::kUnimplemented, reason, field, std::move(message));
}

Status ResourceExhausted(std::string_view reason, std::string_view field,
                         std::string message,
                         std::chrono::milliseconds retry_after) {
  Status status =
      Make(Code::kResourceExhausted, reason, field, std::move(message));
  status.retry_after = retry_after;
  return status;
}

Status Cancelled() {
  return Make(Code::kCancelled, "CANCELLED", "", "the request was cancelled");
}

}  // namespace topk
