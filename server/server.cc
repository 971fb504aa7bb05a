#include "server/server.h"

#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/engine.h"
#include "server/drain.h"
#include "server/endpoints.h"
#include "server/main_server.h"
#include "server/memory_trimmer.h"
#include "server/ready_file.h"
#include "server/resources.h"
#include "server/security/server_security.h"
#include "server/services.h"
#include "server/transport/owned_file.h"
#include "server/transport/xds.h"

namespace topk {
namespace {

// Returns an error if the engine or gRPC cannot work as configured.
Status CheckEnvironment(const ServerConfig& config) {
  Status status = Engine::CheckEnvironment(OptionsOfBackends(config));
  if (!status.ok()) {
    status.message = StrCat(status.field, ": ", status.message);
    return status;
  }
  return config.xds ? CheckXds(config.listen, config.connections) : Status{};
}

// Announces the addresses, unless the settings name no file.
Status WriteAddresses(const ServerConfig& config, const MainServer& main,
                      const Endpoints& endpoints,
                      std::optional<OwnedFile>& file) {
  if (config.ready_file.empty()) return {};
  Result<OwnedFile> written =
      WriteReadyFile(config.ready_file, main.addresses,
                     {{"metrics", endpoints.metrics_address()},
                      {"health", endpoints.health_address()},
                      {"admin", endpoints.admin_address()}});
  if (!written.ok()) return written.status();
  file.emplace(*std::move(written));
  return {};
}

}  // namespace

// Each part uses those before it.
struct Server::Parts {
  ServerSecurity security;
  std::unique_ptr<Services> services;
  std::unique_ptr<XdsStatusLog> xds_status;
  MainServer main;
  Endpoints endpoints;
  MemoryTrimmer trimmer;
  std::optional<OwnedFile> ready_file;
};

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                              spdlog::logger& log) {
  if (Status s = CheckEnvironment(config); !s.ok()) return s;
  // It would announce this server before it serves.
  if (!config.ready_file.empty()) RemoveStaleReadyFile(config.ready_file);
  Result<ServerSecurity> security =
      LoadSecurity(config.security, config.listen, log);
  if (!security.ok()) return security.status();
  auto services =
      std::make_unique<Services>(config, *security->authenticator, log);
  auto xds_status = std::make_unique<XdsStatusLog>(log);
  Result<MainServer> main =
      StartMainServer(config, security->tls.get(), *services, *xds_status, log);
  if (!main.ok()) return main.status();
  Result<Endpoints> endpoints = Endpoints::Start(config, *services);
  if (!endpoints.ok()) return endpoints.status();
  services->metrics().SetReady(true);
  std::optional<OwnedFile> ready_file;
  if (Status s = WriteAddresses(config, *main, *endpoints, ready_file);
      !s.ok()) {
    return s;
  }
  const auto activity = [&services = *services] { return services.activity(); };
  return std::unique_ptr<Server>(new Server(std::unique_ptr<Parts>(
      new Parts{*std::move(security), std::move(services),
                std::move(xds_status), *std::move(main), *std::move(endpoints),
                MemoryTrimmer(activity), std::move(ready_file)})));
}

Status Server::Check(const ServerConfig& config, spdlog::logger& log) {
  if (Status s = CheckEnvironment(config); !s.ok()) return s;
  return LoadSecurity(config.security, config.listen, log).status();
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() = default;

const std::vector<std::string>& Server::addresses() const {
  return parts_->main.addresses;
}

std::string Server::metrics_address() const {
  return parts_->endpoints.metrics_address();
}

std::string Server::health_address() const {
  return parts_->endpoints.health_address();
}

std::string Server::admin_address() const {
  return parts_->endpoints.admin_address();
}

void Server::Drain(std::chrono::milliseconds delay,
                   std::chrono::milliseconds timeout) {
  topk::Drain(*parts_->services, *parts_->main.grpc, delay, timeout);
}

}  // namespace topk
