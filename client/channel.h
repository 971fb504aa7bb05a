// How the client's gRPC channels are set up.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>

#include "client/receive_limit.h"
#include "topk/client.h"

namespace topk {

/// Whether a channel sends calls to servers whose health check says
/// NOT_SERVING.
enum class ToUnhealthy { kNo, kYes };

/// Returns a channel to the options' target that connects at its first call:
/// round robin; no retries of calls that a server has seen (Attempts retries
/// them); messages of any size, as far as `limit` allows. Compressed ones
/// are rejected: a small one may expand to any size.
std::shared_ptr<grpc::ChannelInterface> Connect(
    const ClientOptions& options,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ReceiveLimit& limit, ToUnhealthy to_unhealthy);

}  // namespace topk
