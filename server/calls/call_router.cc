#include "server/calls/call_router.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>

#include <utility>

#include "core/base/text.h"

namespace topk {

void CallRouter::Add(const std::string& path, MakeHandler make_handler) {
  methods_.try_emplace(
      path, Method{RpcMetrics(metrics_, path), std::move(make_handler)});
}

const CallRouter::Method& CallRouter::Find(std::string_view path) const {
  const auto found = methods_.find(path);
  return found == methods_.end() ? unknown_ : found->second;
}

Status CallRouter::UnknownMethod(
    const grpc::GenericServerContext& context) const {
  if (authenticator_ != nullptr) {
    const auto caller = authenticator_->Authenticate(context);
    if (!caller.ok()) return caller.status();
  }
  return Unimplemented(
      "METHOD_UNKNOWN", "",
      StrCat("the server has no method ", Quote(context.method())));
}

void CallRouter::Register(grpc::ServerBuilder& builder) {
  builder.RegisterAsyncGenericService(&rpc_);
  // Disable gRPC's own health service, in case it is enabled for the process.
  // Otherwise, health checks would not reach the generic service.
  builder.SetOption(
      std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
}

void CallRouter::AcceptMore(EventLoop& loop) {
  while (loop.TryAddWaiting()) std::make_shared<Call>(loop, *this)->Wait();
}

}  // namespace topk
