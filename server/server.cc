#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "core/base/text.h"
#include "core/engine.h"
#include "server/metrics.h"
#include "server/ready_file.h"
#include "server/rpc_metrics.h"
#include "server/topk_service.h"

namespace topk {
namespace {

constexpr std::string_view kUnix = "unix:";

// Returns the path of a unix: address, or "".
std::string UnixPath(const std::string& address) {
  return address.rfind(kUnix, 0) == 0 ? address.substr(kUnix.size()) : "";
}

// Removes the socket that a dead server left, which would block the bind. A
// socket that answers is a live server's and stays.
void RemoveStaleSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const int connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (connected != 0 && errno == ECONNREFUSED) unlink(path.c_str());
  close(fd);
}

// Returns the address with the port that was bound.
std::string Bound(const std::string& address, int port) {
  if (!UnixPath(address).empty()) return address;
  return Cat(address.substr(0, address.rfind(':') + 1), port);
}

}  // namespace

struct Server::Impl {
  Impl(const ServerConfig& config, spdlog::logger& log)
      : engine(
            {config.threads, {config.max_elements, config.max_output_bytes}}),
        service(engine, metrics, log, config.max_message_bytes),
        ready_file(config.ready_file) {}

  Metrics metrics;
  Engine engine;
  TopKService service;
  std::unique_ptr<grpc::Server> grpc;
  std::unique_ptr<MetricsEndpoint> endpoint;
  std::vector<std::string> addresses;
  std::string ready_file;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  if (impl_->grpc != nullptr) {
    impl_->grpc->Shutdown(std::chrono::system_clock::now());
  }
  for (const std::string& address : impl_->addresses) {
    if (const std::string path = UnixPath(address); !path.empty()) {
      unlink(path.c_str());
    }
  }
  if (!impl_->ready_file.empty()) std::remove(impl_->ready_file.c_str());
}

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                              spdlog::logger& log) {
  // Both are process-wide switches that the next builder reads.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  auto impl = std::make_unique<Impl>(config, log);
  grpc::ServerBuilder builder;
  builder.RegisterService(&impl->service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // Limits.max_output_bytes bounds it
  // Two servers on one port would each get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(MakeRpcMetrics(*impl->metrics.registry()));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  std::vector<int> ports(config.listen.size());
  for (size_t i = 0; i < config.listen.size(); ++i) {
    RemoveStaleSocket(UnixPath(config.listen[i]));
    builder.AddListeningPort(config.listen[i],
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  impl->grpc = builder.BuildAndStart();
  for (size_t i = 0; i < config.listen.size(); ++i) {
    if (impl->grpc == nullptr || ports[i] == 0) {
      // gRPC stops at the first address that fails: it has port 0.
      if (ports[i] != 0) continue;
      return Status{Code::kUnavailable, "LISTEN", "listen",
                    Cat("cannot listen on ", config.listen[i],
                        ": in use, not local, or not permitted")};
    }
    impl->addresses.push_back(Bound(config.listen[i], ports[i]));
  }
  if (impl->grpc == nullptr) {
    return Status{Code::kUnavailable, "LISTEN", "listen",
                  "gRPC could not start the server"};
  }
  auto server = std::unique_ptr<Server>(new Server(std::move(impl)));
  Impl& running = *server->impl_;
  if (!config.metrics_listen.empty()) {
    Result<std::unique_ptr<MetricsEndpoint>> endpoint = MetricsEndpoint::Start(
        config.metrics_listen, running.metrics.registry());
    if (!endpoint.ok()) return endpoint.status();
    running.endpoint = *std::move(endpoint);
  }
  auto* health = running.grpc->GetHealthCheckService();
  health->SetServingStatus(v1::TopKService::service_full_name(), true);
  health->SetServingStatus("grpc.health.v1.Health", true);
  running.metrics.SetReady(true);
  if (!config.ready_file.empty()) {
    if (Status s = WriteReadyFile(config.ready_file, server->addresses(),
                                  server->metrics_address());
        !s.ok()) {
      return s;
    }
  }
  return server;
}

const std::vector<std::string>& Server::addresses() const {
  return impl_->addresses;
}

std::string Server::metrics_address() const {
  return impl_->endpoint == nullptr ? "" : impl_->endpoint->address();
}

void Server::Drain(std::chrono::milliseconds timeout) {
  impl_->metrics.SetReady(false);
  // All names at once, and it stays so.
  impl_->grpc->GetHealthCheckService()->Shutdown();
  impl_->grpc->Shutdown(std::chrono::system_clock::now() + timeout);
  impl_->grpc->Wait();
}

}  // namespace topk
