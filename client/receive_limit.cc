#include "client/receive_limit.h"

#include <map>

#include "core/base/checked.h"

namespace topk {

std::shared_ptr<ReceiveLimit> ReceiveLimit::Of(const std::string& target) {
  static std::mutex& mutex = *new std::mutex;
  static auto& limits = *new std::map<std::string, std::weak_ptr<ReceiveLimit>>;
  const std::lock_guard lock(mutex);
  std::erase_if(limits, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<ReceiveLimit>& known = limits[target];
  std::shared_ptr<ReceiveLimit> limit = known.lock();
  if (limit == nullptr) known = limit = std::make_shared<ReceiveLimit>();
  return limit;
}

void ReceiveLimit::Add(int64_t bytes) {
  // Allowance for connection buffers and unexpected messages.
  constexpr int64_t kBaseBytes = int64_t{64} << 20;
  // A factor of 2 allows for the messages and for gRPC's read-ahead. Another
  // factor of 2 is needed because gRPC slows down calls when more than half of
  // a quota is in use.
  constexpr int64_t kFactor = 4;
  const std::lock_guard lock(mutex_);
  expected_ += bytes;
  const Size size = Size(expected_) * kFactor + kBaseBytes;
  quota_.Resize(static_cast<size_t>(size.value()));
}

}  // namespace topk
