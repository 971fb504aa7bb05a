#include "server/security/auth_interceptor.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/calls/status_map.h"

namespace topk {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(const Authenticator& authenticator, ServerRpcInfo& call)
      : authenticator_(authenticator), call_(call) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      Check();
    }
    // For those who count statuses.
    if (!refused_.ok() && methods->QueryInterceptionHookPoint(
                              InterceptionHookPoints::PRE_SEND_STATUS)) {
      methods->ModifySendStatus(refused_);
    }
    methods->Proceed();
  }

 private:
  // An interceptor cannot end a call, and the handler that follows would answer
  // it. gRPC's core can: the client gets this status, and nothing of what the
  // handler sends to a call that has ended.
  void Check() {
    grpc::ServerContextBase& context = *call_.server_context();
    const Result<Caller> caller = authenticator_.Authenticate(context);
    if (caller.ok()) return;
    refused_ = ToGrpcStatus(caller.status());
    grpc_call_cancel_with_status(
        context.c_call(), static_cast<grpc_status_code>(refused_.error_code()),
        refused_.error_message().c_str(), nullptr);
  }

  const Authenticator& authenticator_;
  ServerRpcInfo& call_;
  grpc::Status refused_;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(const Authenticator& authenticator, std::vector<std::string> but)
      : authenticator_(authenticator), but_(std::move(but)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* call) override {
    return std::ranges::find(but_, call->method()) != but_.end()
               ? nullptr
               : new Interceptor(authenticator_, *call);
  }

 private:
  const Authenticator& authenticator_;
  const std::vector<std::string> but_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeAuthInterceptorFactory(const Authenticator& authenticator,
                           std::vector<std::string> but) {
  return std::make_unique<Factory>(authenticator, std::move(but));
}

}  // namespace topk
