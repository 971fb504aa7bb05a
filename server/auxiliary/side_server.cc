#include "server/auxiliary/side_server.h"

#include <grpcpp/security/server_credentials.h>

#include <utility>

#include "server/auxiliary/auxiliary_call.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"

namespace topk {

Result<std::unique_ptr<SideServer>> StartSideServer(
    const SideListener& listener, grpc::ServerBuilder& builder,
    std::shared_ptr<void> services,
    const std::function<void(EventLoop&)>& start_services) {
  builder.SetMaxReceiveMessageSize(AuxiliaryCall::kMaxMessageBytes);
  ApplySideConnectionOptions(builder);
  auto acceptor = std::make_unique<Acceptor>(SideConnectionOptions(),
                                             ConnectionReplacement::Default());
  if (!acceptor->Listen(listener.address, builder,
                        grpc::InsecureServerCredentials())) {
    return CannotBind(listener.reason, listener.field, listener.doing,
                      listener.address, acceptor->error());
  }
  std::string address = acceptor->addresses().front();
  Result<std::unique_ptr<GrpcServer>> grpc =
      GrpcServer::Start(builder, std::move(acceptor), start_services);
  if (!grpc.ok()) return grpc.status();
  return std::make_unique<SideServer>(
      SideServer{std::move(services), *std::move(grpc), std::move(address)});
}

}  // namespace topk
