#include "server/main_server.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "core/security/local_address.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/resources.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"

namespace topk {
namespace {

void ApplyMessageLimits(const ServerConfig& config,
                        grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // Limits.max_output_bytes bounds it
  // Messages that are arriving, which nobody here has seen yet.
  grpc::ResourceQuota memory("topkd");
  memory.Resize(static_cast<size_t>(ReceiveMemory(config)));
  builder.SetResourceQuota(memory);
}

// Binds the addresses with sockets of our own.
Result<std::unique_ptr<Acceptor>> Bind(const ServerConfig& config,
                                       ServerTls* tls,
                                       grpc::ServerBuilder& builder,
                                       spdlog::logger& log) {
  auto acceptor = std::make_unique<Acceptor>(
      config.connections, /*max_replaced=*/0,
      static_cast<int>(config.security.client_ipv6_prefix), &log);
  for (const std::string& address : config.listen) {
    const bool plain = tls == nullptr || IsUnixAddress(address);
    if (!acceptor->Listen(
            address, builder,
            plain ? grpc::InsecureServerCredentials() : tls->Credentials(),
            config.unix_socket_mode)) {
      return CannotBind("LISTEN", "listen", "listen on", address,
                        acceptor->error());
    }
  }
  return acceptor;
}

// Has gRPC bind the addresses when the control plane serves them. The ports are
// set once the server is built; they outlive the builder.
void BindByXds(const ServerConfig& config, ServerTls* tls,
               grpc::ServerBuilder& builder, std::vector<int>& ports) {
  // Two servers on one port would each get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (size_t i = 0; i < config.listen.size(); ++i) {
    // Our own TLS outranks the control plane's.
    builder.AddListeningPort(
        config.listen[i],
        tls == nullptr
            ? grpc::XdsServerCredentials(grpc::InsecureServerCredentials())
            : tls->Credentials(),
        &ports[i]);
  }
}

// Builds the server and takes its calls.
Result<std::unique_ptr<GrpcServer>> Build(const ServerConfig& config,
                                          Services& services,
                                          grpc::ServerBuilder& builder,
                                          std::unique_ptr<Acceptor> acceptor) {
  builder.SetOption(WithoutPlugins());
  services.Register(builder);
  ApplyMessageLimits(config, builder);
  ApplyConnectionOptions(config.connections, builder);
  return GrpcServer::Start(
      builder, std::move(acceptor),
      [&services](EventLoop& loop) { services.Start(loop); }, Pollers(config),
      [&services](std::chrono::nanoseconds busy) {
        services.poller_busy().Observe(busy);
      });
}

void CountRejected(Services& services, const Acceptor* acceptor) {
  services.metrics().registry()->AddCounter(
      "topk_connections_rejected_total",
      "Connections closed because a limit of connections or of file "
      "descriptors was reached",
      [acceptor] {
        return acceptor == nullptr ? 0.0
                                   : static_cast<double>(acceptor->rejected());
      });
}

Result<MainServer> StartWithAcceptor(const ServerConfig& config, ServerTls* tls,
                                     Services& services, spdlog::logger& log) {
  grpc::ServerBuilder builder;
  Result<std::unique_ptr<Acceptor>> acceptor = Bind(config, tls, builder, log);
  if (!acceptor.ok()) return acceptor.status();
  CountRejected(services, acceptor->get());
  std::vector<std::string> addresses = (*acceptor)->addresses();
  Result<std::unique_ptr<GrpcServer>> grpc =
      Build(config, services, builder, *std::move(acceptor));
  if (!grpc.ok()) return grpc.status();
  return MainServer{*std::move(grpc), std::move(addresses)};
}

Result<MainServer> StartWithXds(const ServerConfig& config, ServerTls* tls,
                                Services& services, XdsStatusLog& xds_status) {
  grpc::XdsServerBuilder builder;
  builder.set_status_notifier(&xds_status);
  std::vector<int> ports(config.listen.size());
  BindByXds(config, tls, builder, ports);
  CountRejected(services, nullptr);
  Result<std::unique_ptr<GrpcServer>> grpc =
      Build(config, services, builder, nullptr);
  std::vector<std::string> addresses;
  for (size_t i = 0; i < ports.size(); ++i) {
    // gRPC stops at the first address that fails: it has port 0.
    if (ports[i] == 0) {
      return CannotBind("LISTEN", "listen", "listen on", config.listen[i]);
    }
    addresses.push_back(WithPort(config.listen[i], ports[i]));
  }
  if (!grpc.ok()) return grpc.status();
  return MainServer{*std::move(grpc), std::move(addresses)};
}

}  // namespace

Result<MainServer> StartMainServer(const ServerConfig& config, ServerTls* tls,
                                   Services& services, XdsStatusLog& xds_status,
                                   spdlog::logger& log) {
  return config.xds ? StartWithXds(config, tls, services, xds_status)
                    : StartWithAcceptor(config, tls, services, log);
}

}  // namespace topk
