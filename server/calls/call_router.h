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
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Finds the handler for each call by its path. Must outlive the calls.
///
/// Registers all methods as one generic gRPC service, because a generated
/// service would parse the messages and copy their tensors before a handler
/// runs.
class CallRouter {
 public:
  using MakeHandler = std::function<std::unique_ptr<CallHandler>(Call& call)>;

  /// A method, or the fallback for unknown methods.
  struct Method {
    /// The metrics of the method's calls.
    const RpcMetrics::Method& series;
    MakeHandler make_handler;
  };

  /// Calls to unknown methods fail with UNIMPLEMENTED, or with the error of
  /// `authenticator` if it rejects the caller, so that callers without a token
  /// cannot probe for methods. A null `authenticator` accepts every caller.
  /// `metrics` and `authenticator` must outlive the router.
  CallRouter(const RpcMetrics& metrics, const Authenticator* authenticator);

  /// Adds the method at `path`, e.g. "/package.Service/Method". Call before
  /// AcceptMore().
  void Add(const std::string& path, MakeHandler make_handler);
  const Method& Find(std::string_view path) const;

  /// Registers the generic service with `builder`.
  void Register(grpc::ServerBuilder& builder);
  /// Creates Call objects until enough of them wait for incoming calls. Called
  /// when the server starts and when a call arrives.
  void AcceptMore(EventLoop& loop);

  grpc::AsyncGenericService& rpc() { return rpc_; }

 private:
  const RpcMetrics& metrics_;
  const Method unknown_;
  std::map<std::string, Method, std::less<>> methods_;  // constant when serving
  grpc::AsyncGenericService rpc_;
};

}  // namespace topk
