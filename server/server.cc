#include "server/server.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/security/local_address.h"
#include "server/drain.h"
#include "server/main_server.h"
#include "server/memory_trimmer.h"
#include "server/ready_file.h"
#include "server/security/authenticator.h"
#include "server/security/server_tls.h"
#include "server/services.h"
#include "server/side_servers.h"
#include "server/telemetry/metrics_endpoint.h"
#include "server/telemetry/span_exporter.h"
#include "server/transport/owned_file.h"

namespace topk {

struct ServerSecurity {
  std::unique_ptr<ServerTls> tls;  // null: plain text
  std::unique_ptr<Authenticator> authenticator;
};

// The listeners next to the main ones; null if they are not configured.
struct Endpoints {
  std::unique_ptr<SideServer> admin;
  std::unique_ptr<MetricsEndpoint> metrics;
  std::unique_ptr<SideServer> health;

  // The bound address of the metrics, or "".
  std::string metrics_address() const {
    return metrics == nullptr ? "" : metrics->address();
  }
};

namespace {

// Loads certificates and tokens.
Result<ServerSecurity> LoadSecurity(const ServerConfig& server,
                                    spdlog::logger& log) {
  const SecurityConfig& config = server.security;
  ServerSecurity security;
  if (config.tls()) {
    Result<std::unique_ptr<ServerTls>> tls =
        ServerTls::Start({config.tls_cert, config.tls_key, config.tls_client_ca,
                          config.tls_client_crl},
                         log);
    if (!tls.ok()) return tls.status();
    security.tls = *std::move(tls);
  }
  Result<std::unique_ptr<Authenticator>> authenticator = Authenticator::Start(
      config, security.tls == nullptr ? nullptr : security.tls->clients(), log);
  if (!authenticator.ok()) return authenticator.status();
  security.authenticator = *std::move(authenticator);
  const auto is_local = [](const std::string& address) {
    return IsUnixAddress(address) || IsLoopback(address);
  };
  if (security.tls == nullptr &&
      !std::ranges::all_of(server.listen, is_local)) {
    log.warn(config.auth_tokens_file.empty()
                 ? "TLS and tokens are off: everyone who can reach --listen "
                   "may call, and the network can read the tensors"
                 : "TLS is off: bearer tokens are sent unencrypted, which is "
                   "safe only behind a proxy that terminates TLS");
  }
  return security;
}

void LogWarnings(const TraceConfig& config, spdlog::logger& log) {
  for (const std::string& warning : config.warnings) {
    log.warn("traces: {}", warning);
  }
}

// Returns null if the settings name no collector.
std::unique_ptr<SpanExporter> StartTraces(const TraceConfig& config,
                                          spdlog::logger& log) {
  LogWarnings(config, log);
  if (config.endpoint.empty()) return nullptr;
  log.info("traces: spans are sent to {}", config.endpoint);
  return std::make_unique<SpanExporter>(config, log);
}

// Moves an endpoint to its place if it could be started.
template <class Endpoint>
Status Keep(Result<std::unique_ptr<Endpoint>> started,
            std::unique_ptr<Endpoint>& to) {
  if (!started.ok()) return started.status();
  to = *std::move(started);
  return {};
}

Result<Endpoints> StartEndpoints(const ServerConfig& config,
                                 Services& services) {
  Endpoints all;
  Status status;
  if (!config.metrics_listen.empty()) {
    status = Keep(MetricsEndpoint::Start(config.metrics_listen,
                                         services.metrics().registry()),
                  all.metrics);
  }
  if (status.ok() && !config.health_listen.empty()) {
    status =
        Keep(StartHealthServer(config.health_listen, services.health_state(),
                               services.rpc_metrics()),
             all.health);
  }
  if (status.ok() && !config.admin_listen.empty()) {
    status = Keep(StartAdminServer(config.admin_listen), all.admin);
  }
  if (!status.ok()) return status;
  return all;
}

// Returns the bound address, or "".
std::string BoundAddress(const std::unique_ptr<SideServer>& server) {
  return server == nullptr ? "" : server->address;
}

void AddExpiry(const ServerTls& tls, Services& services) {
  services.metrics().registry()->AddGauge(
      "topk_certificate_expiry_timestamp_seconds",
      "When the server's certificate expires, in seconds since 1970",
      [&tls] { return static_cast<double>(tls.expiry()); });
}

// Announces the addresses, unless the settings name no file.
Status WriteAddresses(const ServerConfig& config, const MainServer& main,
                      const Endpoints& endpoints,
                      std::optional<OwnedFile>& file) {
  if (config.ready_file.empty()) return {};
  std::map<std::string, std::string> others;
  if (endpoints.metrics != nullptr) {
    others["metrics"] = endpoints.metrics_address();
  }
  if (endpoints.health != nullptr) others["health"] = endpoints.health->address;
  if (endpoints.admin != nullptr) others["admin"] = endpoints.admin->address;
  Result<OwnedFile> written =
      WriteReadyFile(config.ready_file, main.addresses, others);
  if (!written.ok()) return written.status();
  file.emplace(*std::move(written));
  return {};
}

}  // namespace

// Each part uses those before it.
struct Server::Parts {
  ServerSecurity security;
  std::unique_ptr<SpanExporter> spans;
  std::unique_ptr<Services> services;
  MainServer main;
  Endpoints endpoints;
  MemoryTrimmer trimmer;
  std::optional<OwnedFile> ready_file;
};

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                              spdlog::logger& log) {
  if (Status s = Services::CheckEnvironment(config); !s.ok()) return s;
  // A script may be waiting for the file.
  RemoveStaleReadyFile(config.ready_file);
  Result<ServerSecurity> security = LoadSecurity(config, log);
  if (!security.ok()) return security.status();
  std::unique_ptr<SpanExporter> spans = StartTraces(config.traces, log);
  auto services = std::make_unique<Services>(config, *security->authenticator,
                                             spans.get(), log);
  if (security->tls != nullptr) AddExpiry(*security->tls, *services);
  Result<MainServer> main =
      StartMainServer(config, security->tls.get(), *services, log);
  if (!main.ok()) return main.status();
  Result<Endpoints> endpoints = StartEndpoints(config, *services);
  if (!endpoints.ok()) return endpoints.status();
  services->metrics().SetReady(true);
  std::optional<OwnedFile> ready_file;
  if (Status s = WriteAddresses(config, *main, *endpoints, ready_file);
      !s.ok()) {
    return s;
  }
  const auto activity = [&services = *services] { return services.activity(); };
  return std::unique_ptr<Server>(new Server(std::unique_ptr<Parts>(
      new Parts{*std::move(security), std::move(spans), std::move(services),
                *std::move(main), *std::move(endpoints),
                MemoryTrimmer(activity), std::move(ready_file)})));
}

Status Server::Check(const ServerConfig& config, spdlog::logger& log) {
  if (Status s = Services::CheckEnvironment(config); !s.ok()) return s;
  LogWarnings(config.traces, log);
  const Result<ServerSecurity> security = LoadSecurity(config, log);
  return security.ok() ? Status{} : security.status();
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
  return BoundAddress(parts_->endpoints.health);
}

std::string Server::admin_address() const {
  return BoundAddress(parts_->endpoints.admin);
}

void Server::Drain(std::chrono::milliseconds delay,
                   std::chrono::milliseconds timeout) {
  topk::Drain(*parts_->services, *parts_->main.grpc, delay, timeout);
}

}  // namespace topk
