#include "server/health_watches.h"

#include <grpcpp/server_context.h>

#include <string_view>
#include <vector>

namespace topk {
namespace {

using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

// Lives as long as the call.
class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(HealthWatches& watches, grpc_call* call)
      : watches_(watches), call_(call) {
    watches_.Add(call_);
  }
  ~Interceptor() override { watches_.Remove(call_); }

  void Intercept(InterceptorBatchMethods* methods) override {
    methods->Proceed();
  }

 private:
  HealthWatches& watches_;
  grpc_call* const call_;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(HealthWatches& watches) : watches_(watches) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    if (info->method() != kWatch) return nullptr;
    return new Interceptor(watches_, info->server_context()->c_call());
  }

 private:
  HealthWatches& watches_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
HealthWatches::MakeInterceptorFactory() {
  return std::make_unique<Factory>(*this);
}

void HealthWatches::Add(grpc_call* call) {
  const std::lock_guard lock(mutex_);
  calls_.insert(call);
}

void HealthWatches::Remove(grpc_call* call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
}

void HealthWatches::EndAll() {
  std::vector<grpc_call*> open;
  {
    const std::lock_guard lock(mutex_);
    for (grpc_call* call : calls_) {
      grpc_call_ref(call);
      open.push_back(call);
    }
  }
  // Not under the lock: a cancelled call may be destroyed, and removed, here.
  for (grpc_call* call : open) {
    grpc_call_cancel_with_status(call, GRPC_STATUS_UNAVAILABLE,
                                 "the server is shutting down", nullptr);
    grpc_call_unref(call);
  }
}

}  // namespace topk
