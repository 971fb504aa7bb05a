// The memory that the clients of one target may receive into.
#pragma once

#include <grpcpp/resource_quota.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace topk {

/// Bounds what gRPC holds of a target's responses by what the calls in flight
/// expect. gRPC allocates a whole message before it compares its length with a
/// channel's limit of messages, which therefore bounds no memory: a server that
/// announces 2 GiB is received as far as it sends. Beyond this bound gRPC
/// resets the target's streams, those of other calls too. Thread-safe.
class ReceiveLimit {
 public:
  /// Returns the one of a target in this process: clients that are alike share
  /// connections, and other targets' calls are not concerned.
  static std::shared_ptr<ReceiveLimit> Of(const std::string& target);

  ReceiveLimit() { Add(0); }

  /// The quota of connections that count towards the limit.
  const grpc::ResourceQuota& quota() const { return quota_; }

  /// Allows a call, while it lives, response messages of up to `max_bytes`
  /// bytes.
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
