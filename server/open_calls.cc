#include "server/open_calls.h"

#include <string_view>

namespace topk {
namespace {

using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

// Lives as long as its call.
class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(std::atomic<int64_t>& count) : count_(count) {
    ++count_;
  }
  ~Interceptor() override { --count_; }

  void Intercept(InterceptorBatchMethods* methods) override {
    methods->Proceed();
  }

 private:
  std::atomic<int64_t>& count_;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(std::atomic<int64_t>& count) : count_(count) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return info->method() == kWatch ? nullptr : new Interceptor(count_);
  }

 private:
  std::atomic<int64_t>& count_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
OpenCalls::MakeInterceptorFactory() {
  return std::make_unique<Factory>(count_);
}

}  // namespace topk
