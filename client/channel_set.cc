#include "client/channel_set.h"

#include <algorithm>

#include "client/channel.h"

namespace topk {

ChannelSet::Entry& ChannelSet::For(int64_t bytes) {
  // Not a round number, so that gRPC's error for a message above it differs
  // from that of a server for a request above its own limit.
  int64_t limit = kSmallMessageBytes;
  size_t i = 0;
  for (; i + 1 < entries_.size() && limit < bytes; ++i) limit *= 4;
  limit = std::min(limit, kMaxMessageBytes);
  const std::lock_guard lock(mutex_);
  if (entries_[i] == nullptr) {
    auto channel = Connect(options_, credentials_, ToUnhealthy::kNo,
                           static_cast<int>(limit));
    entries_[i].reset(new Entry{limit, channel, grpc::GenericStub(channel)});
  }
  return *entries_[i];
}

}  // namespace topk
