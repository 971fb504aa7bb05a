// The channels of one client, by the size of the responses that they receive.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "client/topk_client.h"

namespace topk {

/// gRPC bounds the messages that it receives per channel, not per call, and
/// allocates a message before a client sees any of it. So each call takes the
/// channel with the smallest limit that its largest response fits: a server
/// that sends more is cut off at the length in front of the message. Limits
/// ascend by a factor of 4 from 1 MiB, so that most clients need one channel.
class ChannelSet {
 public:
  struct Entry {
    /// Of a received message, in bytes.
    int64_t max_message_bytes;
    std::shared_ptr<grpc::Channel> channel;
    grpc::GenericStub calls;
  };

  ChannelSet(const ClientOptions& options,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : options_(options), credentials_(credentials) {}

  /// Returns the channel for responses of up to `bytes` bytes. Thread-safe.
  Entry& For(int64_t bytes);

 private:
  const ClientOptions options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Entry>, 7> entries_;
};

}  // namespace topk
