#include "server/calls/intake.h"

namespace topk {

// Whether to read on; the mutex is held.
bool Intake::BeginRead() {
  if (reading_ || ended_ || stopped_ || waiting_.size() >= kMostMessages ||
      bytes_ >= kMostBytes) {
    return false;
  }
  reading_ = true;
  return true;
}

Intake::Next Intake::Receive(bool ok, grpc::ByteBuffer& message) {
  const std::lock_guard lock(mutex_);
  reading_ = false;
  if (stopped_) return {};
  if (ok) {
    bytes_ += static_cast<int64_t>(message.Length());
    if (waiting_.empty()) since_ = std::chrono::steady_clock::now();
    waiting_.emplace_back().Swap(&message);
  } else {
    ended_ = true;
  }
  const bool work = !working_;
  working_ = true;
  return {BeginRead(), work, bytes_};
}

Intake::Taken Intake::Take(std::vector<grpc::ByteBuffer>& messages) {
  messages.clear();
  const std::lock_guard lock(mutex_);
  messages.swap(waiting_);
  Taken taken{false, ended_ && messages.empty(), !messages.empty(), bytes_,
              since_};
  bytes_ = 0;
  working_ = taken.any || taken.end;
  taken.read = BeginRead();
  return taken;
}

void Intake::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  waiting_.clear();
}

}  // namespace topk
