#include "server/malformed_request.h"

#include "server/raw_message.h"
#include "server/status_map.h"

namespace topk {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      // Our own INTERNAL errors have a message.
      if (status.error_code() == grpc::StatusCode::INTERNAL &&
          status.error_message().empty()) {
        methods->ModifySendStatus(ToGrpcStatus(MalformedMessage()));
      }
    }
    methods->Proceed();
  }
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return info->type() == ServerRpcInfo::Type::UNARY ? new Interceptor
                                                      : nullptr;
  }
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeMalformedRequestStatus() {
  return std::make_unique<Factory>();
}

}  // namespace topk
