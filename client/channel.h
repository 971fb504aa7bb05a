// The channel to the servers, and what all calls on it share.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "client/credentials.h"
#include "topk/client.h"

namespace topk {

/// A channel to `options.target`. The channel connects at its first call and
/// uses round robin. It does not retry calls that a server has seen; see
/// ClientCall. Servers that report NOT_SERVING still get calls, because a
/// draining server still answers, and may be the only known server. Message
/// sizes are not limited. Thread-safe.
struct Connection {
  explicit Connection(const ClientOptions& client_options);

  const ClientOptions options;
  /// The first error in the options. If not OK, every call fails with it.
  const Status setup;
  TokenFile token;
  /// Requests over a Unix socket are copied. If the server stalls, gRPC never
  /// closes the socket, and might never release borrowed memory.
  const bool copies;
  const std::shared_ptr<grpc::ChannelInterface> channel;
  grpc::GenericStub stub;
};

}  // namespace topk
