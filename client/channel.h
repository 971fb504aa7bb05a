// Creates the client's gRPC channels.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>

#include "topk/client.h"

namespace topk {

/// Returns a channel to `options.target`. The channel connects at its first
/// call and uses round robin. It does not retry calls that a server has seen;
/// see Attempts. Servers that report NOT_SERVING still get calls, because a
/// draining server still answers, and may be the only known server. Message
/// sizes are not limited.
std::shared_ptr<grpc::ChannelInterface> Connect(
    const ClientOptions& options,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials);

}  // namespace topk
