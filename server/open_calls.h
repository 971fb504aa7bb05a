// How many calls are under way.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace topk {

/// Counts the calls that a drain should wait for: all but those of
/// grpc.health.v1.Health/Watch, which a load balancer keeps open for as long as
/// it can. Outlives the server. Thread-safe.
class OpenCalls {
 public:
  /// Returns what counts them.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  MakeInterceptorFactory();

  /// How many there are now.
  int64_t count() const { return count_; }

 private:
  std::atomic<int64_t> count_ = 0;
};

}  // namespace topk
