#include "server/calls/call_router.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>

#include <utility>

namespace topk {
namespace {

class UnknownCall final : public CallHandler {
 public:
  UnknownCall(Call& call, const Authenticator* authenticator)
      : call_(call), authenticator_(authenticator) {}

  void OnArrival() override {
    if (authenticator_ != nullptr) {
      const auto caller = authenticator_->Authenticate(call_.context());
      if (!caller.ok()) return call_.Finish(caller.status());
    }
    call_.Finish(
        Unimplemented("METHOD_UNKNOWN", "", "the server has no such method"));
  }
  void OnRead(bool, grpc::ByteBuffer&) override {}

 private:
  Call& call_;
  const Authenticator* const authenticator_;
};

}  // namespace

CallRouter::CallRouter(const RpcMetrics& metrics,
                       const Authenticator* authenticator)
    : metrics_(metrics),
      unknown_{metrics.Find(""), [authenticator](Call& call) {
                 return std::make_unique<UnknownCall>(call, authenticator);
               }} {}

void CallRouter::Add(const std::string& path, MakeHandler make_handler) {
  methods_.try_emplace(path,
                       Method{metrics_.Find(path), std::move(make_handler)});
}

const CallRouter::Method& CallRouter::Find(std::string_view path) const {
  const auto found = methods_.find(path);
  return found == methods_.end() ? unknown_ : found->second;
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
