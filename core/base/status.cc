#include "core/base/status.h"

#include <absl/status/status.h>

namespace topk {

std::string CodeName(Code code) {
  std::string name =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
  return name.empty() ? "UNKNOWN" : name;
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
