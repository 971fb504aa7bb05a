// The methods of a server.
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

/// Finds the handler of each call by its path. All methods are one generic
/// service of gRPC: a generated service would parse the messages and copy their
/// tensors before a handler runs. Must outlive the calls.
class CallRouter {
 public:
  using MakeHandler = std::function<std::unique_ptr<CallHandler>(Call& call)>;

  /// A method, or all those that do not exist.
  struct Method {
    /// Counts the calls.
    const RpcMetrics::Method& series;
    MakeHandler make_handler;
  };

  /// Calls of methods that do not exist are rejected: UNIMPLEMENTED, or as
  /// `authenticator` decides, so that callers without a token learn nothing. A
  /// null `authenticator` accepts every caller. Both must outlive the router.
  CallRouter(const RpcMetrics& metrics, const Authenticator* authenticator);

  /// Adds a method, "/package.Service/Method". Call it before Start().
  void Add(const std::string& path, MakeHandler make_handler);
  const Method& Find(std::string_view path) const;

  /// Registers the service with a server.
  void Register(grpc::ServerBuilder& builder) {
    builder.RegisterAsyncGenericService(&rpc_);
  }
  /// Takes calls from the loop until the server shuts down.
  void Start(EventLoop& loop);

  grpc::AsyncGenericService& rpc() { return rpc_; }

 private:
  const RpcMetrics& metrics_;
  const Method unknown_;
  std::map<std::string, Method, std::less<>> methods_;
  grpc::AsyncGenericService rpc_;
};

}  // namespace topk
