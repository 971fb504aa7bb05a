#include "client/retry.h"

#include <algorithm>

#include "client/rpc_error.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr std::chrono::milliseconds kLongestPause{2000};

// Returns whether another attempt may succeed. If the server dies after a proxy
// has forwarded part of the response, gRPC reports CANCELLED or INTERNAL.
// Unlike the errors of topkd, such errors have no `reason`.
bool IsRetried(const Status& status, bool begun) {
  if (status.retry_after == kDoNotRetry) return false;
  switch (status.code) {
    case Code::kUnavailable:
      return true;
    case Code::kResourceExhausted:
      return status.retry_after.count() > 0;
    case Code::kCancelled:
    case Code::kInternal:
      return begun && status.reason.empty();
    default:
      return false;
  }
}

}  // namespace

std::optional<Attempts::Time> Attempts::Next(Status& status, bool begun) {
  const bool retried = IsRetried(status, begun);
  status.retry_after =
      std::max(status.retry_after, std::chrono::milliseconds(0));
  if (!retried || --left_ <= 0) return {};
  const auto then =
      std::chrono::system_clock::now() + std::max(pause_, status.retry_after);
  if (then >= deadline_) {
    if (status.retry_after.count() > 0) {
      status.message +=
          StrCat(" (not retried: the retry delay of ",
                 status.retry_after.count(), " ms ends after the deadline)");
    }
    return {};
  }
  pause_ = std::min(4 * pause_, kLongestPause);
  return then;
}

}  // namespace topk
