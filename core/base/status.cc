#include "topk/status.h"

#include <iterator>

namespace topk {

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
  return {Code::kInvalidArgument, std::string(reason), std::string(field),
          std::move(message)};
}

Status Unimplemented(std::string_view reason, std::string_view field,
                     std::string message) {
  return {Code::kUnimplemented, std::string(reason), std::string(field),
          std::move(message)};
}

Status ResourceExhausted(std::string_view reason, std::string_view field,
                         std::string message,
                         std::chrono::milliseconds retry_after) {
  return {Code::kResourceExhausted, std::string(reason), std::string(field),
          std::move(message), retry_after};
}

Status Cancelled() {
  return {Code::kCancelled, "CANCELLED", "", "the request was cancelled"};
}

}  // namespace topk
