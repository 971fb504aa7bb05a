#include "server/main_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "core/security/local_address.h"
#include "server/admission/memory_limit.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"

namespace topk {
namespace {

// Each poller takes events that another must be woken to see: on two CPUs a
// second one adds 15 us to a small call.
int PollersFor(int set, int threads) {
  return set > 0 ? set : std::max(1, threads / 2);
}

// Binds the addresses.
Status Bind(const ServerConfig& config, ServerTls* tls,
            grpc::ServerBuilder& builder, Acceptor& acceptor) {
  for (const std::string& address : config.listen) {
    const bool plain = tls == nullptr || IsUnixAddress(address);
    if (!acceptor.Listen(
            address, builder,
            plain ? grpc::InsecureServerCredentials() : tls->Credentials(),
            config.unix_socket_mode)) {
      return CannotBind("LISTEN", "listen", "listen on", address,
                        acceptor.error());
    }
  }
  return {};
}

}  // namespace

Result<MainServer> StartMainServer(const ServerConfig& config, ServerTls* tls,
                                   Services& services, spdlog::logger& log) {
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutPlugins>());
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // Limits.max_output_bytes bounds it
  // Messages that are arriving, which nobody here has seen yet.
  grpc::ResourceQuota memory("topkd");
  memory.Resize(config.max_receive_memory > 0
                    ? static_cast<size_t>(config.max_receive_memory)
                    : static_cast<size_t>(Services::kReceiveMemory *
                                          static_cast<double>(MemoryLimit())));
  builder.SetResourceQuota(memory);
  ApplyConnectionOptions(config.connections, builder);

  MainServer server;
  auto acceptor =
      std::make_unique<Acceptor>(config.connections, /*max_replaced=*/0,
                                 config.security.client_ipv6_prefix, &log);
  if (Status s = Bind(config, tls, builder, *acceptor); !s.ok()) return s;
  server.addresses = acceptor->addresses();
  services.metrics().registry()->AddCounter(
      "topk_connections_rejected_total",
      "Connections closed because a limit of connections or of file "
      "descriptors was reached",
      [&bound = *acceptor] { return static_cast<double>(bound.rejected()); });
  Result<std::unique_ptr<GrpcServer>> grpc =
      GrpcServer::Start(builder, std::move(acceptor), &services.router(),
                        PollersFor(config.pollers, services.threads()),
                        [&services, &log](std::chrono::nanoseconds busy) {
                          services.metrics().RecordPollerBusy(busy, log);
                        });
  if (!grpc.ok()) return grpc.status();
  server.grpc = *std::move(grpc);
  return server;
}

}  // namespace topk
