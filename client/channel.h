// How the client's gRPC channels are set up.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "client/topk_client.h"

namespace topk {

/// Whether a channel sends calls to servers whose health check says
/// NOT_SERVING.
enum class ToUnhealthy { kNo, kYes };

/// protobuf has no larger messages, and gRPC 1.51 aborts on one.
inline constexpr int64_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

/// The smallest limit of received messages, in bytes.
inline constexpr int64_t kSmallMessageBytes = (1 << 20) + 4097;

/// Returns a channel to the options' target that connects at its first call:
/// round robin; no retries of calls that a server has seen (Attempts retries
/// them); messages of any size are sent, and of up to `max_received_bytes`
/// received. Compressed messages are rejected: a small one may expand to any
/// size.
std::shared_ptr<grpc::Channel> Connect(
    const ClientOptions& options,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    ToUnhealthy to_unhealthy, int max_received_bytes);

}  // namespace topk
