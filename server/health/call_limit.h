// How many calls may be open at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace topk {

/// Bounds the calls that are open at once: those of one client address, and all
/// together. Thread-safe.
class CallLimit {
  using Client = std::pair<const std::string, int>;
  struct Close {
    CallLimit* limit;
    void operator()(Client* client) const;
  };

 public:
  /// An open call, until it is destroyed.
  using Slot = std::unique_ptr<Client, Close>;

  /// `what` names the calls in error messages, e.g. "health". One client may
  /// have half of `max` calls open.
  CallLimit(std::string what, int max)
      : what_(std::move(what)), max_(max), max_of_client_(max / 2) {}

  /// Counts a call of the client with this address until the slot is destroyed,
  /// which must be before the limit is. RESOURCE_EXHAUSTED, naming the limit,
  /// if too many calls are open.
  Result<Slot> Open(const std::string& client);

 private:
  const std::string what_;
  const int max_;
  const int max_of_client_;
  std::mutex mutex_;
  int open_ = 0;
  std::map<std::string, int> clients_;
};

}  // namespace topk
