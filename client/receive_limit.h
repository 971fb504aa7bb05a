// Bounds the memory for received messages.
#pragma once

#include <grpcpp/resource_quota.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace topk {

/// Limits the memory for responses from one target to the needs of the calls in
/// flight. A channel's message size limit does not limit memory: gRPC allocates
/// a whole message before it checks the length, and receives up to 2 GiB if the
/// server sends that much. If this limit is exceeded, gRPC resets the target's
/// streams, including those of other calls. Thread-safe.
class ReceiveLimit {
 public:
  /// Returns the limit for a target. All clients of the target in this process
  /// share the limit, because they may share connections. Calls to other
  /// targets are not affected.
  static std::shared_ptr<ReceiveLimit> Of(const std::string& target);

  ReceiveLimit() { Add(0); }

  /// The memory quota of the target's connections.
  const grpc::ResourceQuota& quota() const { return quota_; }

  /// Raises the memory limit for the duration of a call that may receive
  /// messages of up to `max_bytes` bytes.
  class Call {
   public:
    Call(ReceiveLimit& limit, int64_t max_bytes)
        : limit_(limit), max_bytes_(max_bytes) {
      limit_.Add(max_bytes_);
    }
    ~Call() { limit_.Add(-max_bytes_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    ReceiveLimit& limit_;
    const int64_t max_bytes_;
  };

 private:
  void Add(int64_t bytes);

  std::mutex mutex_;
  int64_t expected_ = 0;
  grpc::ResourceQuota quota_;
};

}  // namespace topk
