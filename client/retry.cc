#include "client/retry.h"

#include <algorithm>

#include "core/base/text.h"

namespace topk {
namespace {

// Returns whether another attempt may succeed. If the server dies after a proxy
// has forwarded part of the response, gRPC reports CANCELLED or INTERNAL.
// Unlike the errors of topkd, such errors have no `reason`.
bool IsRetried(const Status& status, bool begun) {
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
  if (!IsRetried(status, begun) || ++failed_ >= retry_.attempts) return {};
  const Time now = std::chrono::system_clock::now();
  const Pause pause = std::max<Pause>(pause_, status.retry_after);
  if (pause >= deadline_ - now) {
    if (status.retry_after.count() > 0) {
      status.message +=
          StrCat(" (not retried: the retry delay of ",
                 status.retry_after.count(), " ms ends after the deadline)");
    }
    return {};
  }
  pause_ = std::min<Pause>(retry_.maximum, retry_.multiplier * pause_);
  return now + std::chrono::ceil<Time::duration>(pause);
}

}  // namespace topk
