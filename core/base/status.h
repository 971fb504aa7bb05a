// Errors as values: the one way in which every module reports failure.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace topk {

/// Status codes with the numbers of google.rpc.Code.
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

/// Returns the code's name in gRPC's spelling, e.g. "INVALID_ARGUMENT";
/// "UNKNOWN" for a number that is not a Code.
std::string_view CodeName(Code code);

/// The outcome of an operation. A default-constructed one is OK.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  /// A stable UPPER_SNAKE name to program against, e.g. K_EXCEEDS_DIMENSION.
  std::string reason;
  /// The path of the request's field at fault, e.g. "tensor.shape[1]", or "";
  /// of a quota, whose it is: "server", or "client:" and the caller's key.
  std::string field;
  /// For a person: names the value and the rule.
  std::string message;
  /// RESOURCE_EXHAUSTED: after how long the same request may be taken; 0 if
  /// waiting does not help.
  std::chrono::milliseconds retry_after{0};

  bool ok() const { return code == Code::kOk; }
};

/// Returns an INVALID_ARGUMENT status: the text of the operator forbids it.
Status InvalidArgument(std::string_view reason, std::string_view field,
                       std::string message);

/// Returns an UNIMPLEMENTED status: legal, but not here.
Status Unimplemented(std::string_view reason, std::string_view field,
                     std::string message);

/// Returns a RESOURCE_EXHAUSTED status: over a limit of this process, for so
/// long as it may be if waiting helps.
Status ResourceExhausted(std::string_view reason, std::string_view field,
                         std::string message,
                         std::chrono::milliseconds retry_after = {});

/// Returns a CANCELLED status: whoever asked does not wait any more.
Status Cancelled();

/// A value, or the error that stands in its place.
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
  /// REQUIRES: ok(), for all of the following.
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace topk
