// Calls of methods that the server does not have.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include "server/auxiliary/auxiliary_call.h"
#include "server/calls/event_loop.h"
#include "server/security/authenticator.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Rejects them: UNIMPLEMENTED, or what the authenticator says, so that callers
/// without a token learn nothing. gRPC would reject them without counting.
/// Thread-safe; one for each grpc::Server.
class UnknownMethods {
 public:
  /// Both outlive it; the authenticator is null if the server is open to all.
  UnknownMethods(const RpcMetrics& metrics, const Authenticator* authenticator);

  /// The generic service that the server registers.
  grpc::AsyncGenericService& rpc() { return rpc_; }

  /// Takes calls from a loop until the server shuts down.
  void Start(EventLoop& loop);

 private:
  grpc::AsyncGenericService rpc_;
  const AuxiliaryMethod method_;
};

}  // namespace topk
