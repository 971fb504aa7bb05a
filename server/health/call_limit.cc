#include "server/health/call_limit.h"

#include "core/base/text.h"

namespace topk {

Result<CallLimit::Slot> CallLimit::Open(const std::string& client) {
  const auto too_many = [this](const char* whose, int limit) {
    return ResourceExhausted("TOO_MANY_OPEN_CALLS", "",
                             StrCat("too many open ", what_, " calls", whose,
                                    " (limit ", limit, ")"));
  };
  const MutexLock lock(mutex_);
  if (open_ >= max_) return too_many("", max_);
  Client& entry = *clients_.try_emplace(client).first;
  if (entry.second >= max_of_client_) {
    return too_many(" of one client address", max_of_client_);
  }
  ++entry.second;
  ++open_;
  return Slot(&entry, {this});
}

void CallLimit::Close::operator()(Client* client) const {
  const MutexLock lock(limit->mutex_);
  if (--client->second == 0) limit->clients_.erase(client->first);
  --limit->open_;
}

}  // namespace topk
