// Dispatches calls to handlers by method.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/calls/call.h"
#include "server/security/authenticator.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/rpc_metrics.h"
#include "topk/status.h"

namespace topk {

/// Finds the handler for each call by its path. Must outlive the calls.
///
/// Registers all methods as one generic gRPC service, because a generated
/// service would parse the messages and copy their tensors before a handler
/// runs.
class CallRouter {
 public:
  using MakeHandler = std::function<std::unique_ptr<CallHandler>(Call& call)>;

  struct Method {
    RpcMetrics metrics;
    /// Empty for an unknown method; see UnknownMethod().
    MakeHandler make_handler;
  };

  /// `metrics` and `authenticator` must outlive the router. A null
  /// `authenticator` accepts every caller.
  CallRouter(MetricRegistry& metrics, const Authenticator* authenticator)
      : metrics_(metrics),
        authenticator_(authenticator),
        unknown_{RpcMetrics(metrics, ""), {}} {}

  /// Adds the method at `path`, e.g. "/package.Service/Method". Call before
  /// AcceptMore().
  void Add(const std::string& path, MakeHandler make_handler);
  const Method& Find(std::string_view path) const;
  /// Returns the error for a call to an unknown method: UNIMPLEMENTED, or the
  /// error of the authenticator if it rejects the caller, so that callers
  /// without a token cannot probe for methods.
  Status UnknownMethod(const grpc::GenericServerContext& context) const;

  /// Registers the generic service with `builder`.
  void Register(grpc::ServerBuilder& builder);
  /// Creates Call objects until enough of them wait for incoming calls. Called
  /// when the server starts and when a call arrives.
  void AcceptMore(EventLoop& loop);

  grpc::AsyncGenericService& rpc() { return rpc_; }

 private:
  MetricRegistry& metrics_;
  const Authenticator* const authenticator_;
  const Method unknown_;
  std::map<std::string, Method, std::less<>> methods_;  // constant when serving
  grpc::AsyncGenericService rpc_;
};

}  // namespace topk
