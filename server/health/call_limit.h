// Limits the number of open calls.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace topk {

/// Limits the number of open calls, in total and per client address.
/// Thread-safe.
class CallLimit {
  using Client = std::pair<const std::string, int>;
  struct Close {
    CallLimit* limit;
    void operator()(Client* client) const;
  };

 public:
  /// Represents an open call. The call counts as open until this is destroyed.
  using Slot = std::unique_ptr<Client, Close>;

  /// `what` names the calls in error messages, e.g. "health". Each client may
  /// have half of `max` calls open.
  CallLimit(std::string what, int max)
      : what_(std::move(what)), max_(max), max_of_client_(max / 2) {}

  /// Opens a call for the client at this address. The slot must be destroyed
  /// before the limit. Returns RESOURCE_EXHAUSTED, naming the limit, if too
  /// many calls are open.
  Result<Slot> Open(const std::string& client);

 private:
  const std::string what_;
  const int max_;
  const int max_of_client_;
  Mutex mutex_;
  int open_ TOPK_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> clients_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
