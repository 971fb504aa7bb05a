// Error handling for all modules: errors are returned as values.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace topk {

/// Status codes, numbered as in google.rpc.Code.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

/// Returns the name of a code in gRPC's spelling, e.g. "INVALID_ARGUMENT", or
/// "UNKNOWN" if the number is not a Code.
std::string_view CodeName(Code code);

/// The outcome of an operation. OK by default.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  /// A stable identifier that programs can check, e.g. K_EXCEEDS_DIMENSION.
  std::string reason;
  /// The path of the offending request field, e.g. "tensor.shape[1]", or "".
  /// For an exceeded quota, this is the owner of the quota: "server", or
  /// "client:" followed by the caller's key.
  std::string field;
  /// A human-readable message that names the invalid value and the broken rule.
  std::string message;
  /// For RESOURCE_EXHAUSTED: the delay before retrying the same request, or 0
  /// if waiting does not help.
  std::chrono::milliseconds retry_after{0};

  bool ok() const { return code == Code::kOk; }
};

/// Returns INVALID_ARGUMENT, for requests that break an operator's rule.
Status InvalidArgument(std::string_view reason, std::string_view field,
                       std::string message);

/// Returns UNIMPLEMENTED, for valid but unsupported requests.
Status Unimplemented(std::string_view reason, std::string_view field,
                     std::string message);

/// Returns RESOURCE_EXHAUSTED, for requests that exceed a limit of this
/// process. `retry_after` is 0 if waiting does not help.
Status ResourceExhausted(std::string_view reason, std::string_view field,
                         std::string message,
                         std::chrono::milliseconds retry_after = {});

/// Returns CANCELLED, for calls whose caller no longer waits for the result.
Status Cancelled();

/// A value or an error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT: implicit by design
  /// REQUIRES: !status.ok().
  Result(Status status) : state_(std::move(status)) {  // NOLINT
    if (std::get<Status>(state_).ok()) std::abort();
  }

  bool ok() const { return std::holds_alternative<T>(state_); }
  /// REQUIRES: !ok().
  const Status& status() const { return std::get<Status>(state_); }
  /// All accessors below require ok().
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  /// Returns by value, so that a loop over a temporary result is safe.
  T operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace topk
