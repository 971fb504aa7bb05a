// grpc.reflection: the services that there are, and their contracts.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <string>
#include <vector>

#include "server/auxiliary/auxiliary_call.h"
#include "server/auxiliary/call_limit.h"
#include "server/auxiliary/reflector.h"
#include "server/calls/event_loop.h"
#include "server/calls/raw_service.h"
#include "server/security/authenticator.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Describes the services of a server, from the descriptors that are linked in.
/// Serves both names of the protocol: v1 and v1alpha have the same messages.
/// gRPC's own reflection takes a thread per open stream (gRPC 1.51).
/// Thread-safe; one for each grpc::Server.
class ReflectionService {
 public:
  /// Open streams of one server. Tools keep one while they run.
  static constexpr int kMaxOpenCalls = 1024;

  /// Returns the full names of services, with those of reflection itself.
  static std::vector<std::string> WithItself(std::vector<std::string> services);

  /// `services` are the full names of the services to list; reflection itself
  /// is added. The others outlive the service; the authenticator is null if it
  /// is open to everyone.
  ReflectionService(std::vector<std::string> services,
                    const RpcMetrics& metrics,
                    const Authenticator* authenticator);

  /// The service that the server registers.
  grpc::Service& rpc() { return rpc_; }

  /// Takes calls from a loop until the server shuts down.
  void Start(EventLoop& loop);

 private:
  class StreamCall;

  Reflector reflector_;
  RawService rpc_;
  CallLimit limit_{"reflection", kMaxOpenCalls};
  const AuxiliaryMethod v1_;
  const AuxiliaryMethod v1alpha_;
};

}  // namespace topk
