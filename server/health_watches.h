// The open calls of grpc.health.v1.Health/Watch.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <mutex>
#include <set>

namespace topk {

/// Knows every open Watch call, to end them when the server drains: a load
/// balancer keeps its Watch for as long as it can, and gRPC's shutdown would
/// wait for it until the drain's deadline. Thread-safe.
class HealthWatches {
 public:
  /// Returns what registers the calls. The watches outlive the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  MakeInterceptorFactory();

  /// Ends all that are open with UNAVAILABLE.
  void EndAll();

  /// Registers and forgets a call; for the interceptor.
  void Add(grpc_call* call);
  void Remove(grpc_call* call);

 private:
  std::mutex mutex_;
  std::set<grpc_call*> calls_;
};

}  // namespace topk
