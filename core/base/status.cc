#include "core/base/status.h"

#include <iterator>

namespace topk {
namespace {

Status Make(Code code, std::string_view reason, std::string_view field,
            std::string message) {
  return {code, std::string(reason), std::string(field), std::move(message)};
}

}  // namespace

std::string_view CodeName(Code code) {
  constexpr std::string_view kUnknown = "UNKNOWN";
  constexpr std::string_view kNames[] = {"OK",
                                         "CANCELLED",
                                         kUnknown,
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         kUnknown,
                                         kUnknown,
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE",
                                         kUnknown,
                                         "UNAUTHENTICATED"};
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : kUnknown;
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
