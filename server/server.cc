#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <future>
#include <optional>
#include <thread>

#include "core/base/processors.h"
#include "core/base/text.h"
#include "core/engine.h"
#include "core/security/local_address.h"
#include "server/admin_server.h"
#include "server/admission/admission_controller.h"
#include "server/admission/memory_limit.h"
#include "server/admission/rate_limiter.h"
#include "server/auxiliary/reflection_service.h"
#include "server/auxiliary/unknown_methods.h"
#include "server/calls/event_loop.h"
#include "server/calls/topk_service.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/graceful_goaway.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/health/health_endpoint.h"
#include "server/health/health_service.h"
#include "server/memory_trimmer.h"
#include "server/oip/oip_service.h"
#include "server/ready_file.h"
#include "server/security/authenticator.h"
#include "server/security/server_tls.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/device_metrics.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/metrics_endpoint.h"
#include "server/telemetry/poller_busy.h"
#include "server/telemetry/rpc_metrics.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"
#include "server/transport/owned_file.h"
#include "server/transport/xds.h"

namespace topk {
namespace {

// Threads that poll. Each takes events that another must be woken to see: on
// two processors a second one adds 15 us to a small call.
int PollersFor(int set, int threads) {
  return set > 0 ? set : std::max(1, threads / 2);
}

// A limit that was set, or a part of another.
int64_t Or(int64_t set, double part, int64_t of) {
  return set > 0 ? set : static_cast<int64_t>(part * static_cast<double>(of));
}

// Fractions of the memory: for requests in flight, and for gRPC's receive
// buffers. The latter is larger, because messages occupy the buffers before
// they are admitted, and gRPC ends calls without a message if the buffers run
// out. Both count some of the same bytes; the rest is for the process itself.
constexpr double kPartInflight = 0.25;
constexpr double kPartReceived = 0.6;

AdmissionLimits AdmissionLimitsOf(const ServerConfig& config) {
  AdmissionLimits limits;
  limits.bytes = Or(config.max_inflight_bytes, kPartInflight, MemoryLimit());
  limits.client_bytes = Or(config.max_client_inflight_bytes, 0.5, limits.bytes);
  limits.calls = config.max_inflight_calls;
  limits.client_calls = config.max_client_inflight_calls > 0
                            ? config.max_client_inflight_calls
                            : limits.calls - limits.calls / 2;
  return limits;
}

BackendOptions BackendOptionsOf(const ServerConfig& config) {
  return {config.backend, config.device_memory_bytes};
}

// Returns an error if the engine or gRPC cannot work as configured.
Status CheckEnvironment(const ServerConfig& config) {
  Status status = Engine::CheckEnvironment(BackendOptionsOf(config));
  if (!status.ok()) {
    status.message = StrCat(status.field, ": ", status.message);
    return status;
  }
  return config.xds ? CheckXds(config.listen, config.connections) : Status{};
}

EngineOptions EngineOptionsOf(const ServerConfig& config, int threads) {
  return {threads,
          {config.max_elements, config.max_output_bytes,
           config.max_selected_elements, config.max_rank},
          BackendOptionsOf(config)};
}

}  // namespace

struct Server::Impl {
  Impl(const ServerConfig& config, spdlog::logger& log)
      : xds_status(log),
        threads(config.threads > 0 ? config.threads : AvailableProcessors()),
        engine(EngineOptionsOf(config, threads)),
        shared_objects(
            config.allow_shared_memory
                ? std::make_unique<SharedObjects>(config.shared_memory_prefix)
                : nullptr),
        admission(AdmissionLimitsOf(config),
                  {config.security.client_requests_per_second,
                   config.security.client_bytes_per_second}),
        access_log(log,
                   {config.access_log_sample,
                    static_cast<int64_t>(config.slow_request_seconds * 1e9)}),
        poller_busy(*metrics.registry(), log),
        service(engine, metrics, rpc_metrics, access_log, shared_objects.get(),
                admission, config.max_message_bytes, threads) {
    AddMetrics(log);
  }

  // Adds the metrics that are asked for when they are scraped.
  void AddMetrics(const spdlog::logger& log);

  // Loads certificates and tokens.
  Status Secure(const ServerConfig& config, spdlog::logger& log);
  // Binds and starts to serve gRPC.
  Status Listen(const ServerConfig& config, spdlog::logger& log);
  // Binds the addresses with listeners of our own.
  Status ListenByAcceptor(const ServerConfig& config,
                          grpc::ServerBuilder& builder, spdlog::logger& log);
  // Has gRPC bind the addresses when a control plane says so. `ports` receives
  // the ports once the server is built.
  void ListenByXds(const ServerConfig& config, grpc::ServerBuilder& builder,
                   std::vector<int>& ports) const;

  XdsStatusLog xds_status;
  const int threads;
  Metrics metrics;
  RpcMetrics rpc_metrics{
      *metrics.registry(),
      {TopKService::service_full_name(), OipService::service_full_name(),
       HealthService::kName, ReflectionService::NameOfV1(),
       ReflectionService::NameOfV1Alpha()}};
  Engine engine;
  const std::unique_ptr<SharedObjects> shared_objects;
  std::unique_ptr<ServerTls> tls;  // null: plain text
  std::unique_ptr<Authenticator> authenticator;
  AdmissionController admission;
  AccessLog access_log;
  PollerBusy poller_busy;
  TopKService service;
  HealthState health_state{{"", TopKService::service_full_name(),
                            OipService::service_full_name(),
                            HealthService::kName}};
  OipService oip{service, health_state};
  HealthService health{health_state, rpc_metrics};
  std::unique_ptr<ReflectionService> reflection;
  std::unique_ptr<UnknownMethods> unknown_methods;
  std::unique_ptr<grpc::Server> grpc;
  std::optional<Acceptor> acceptor;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<AdminServer> admin;
  std::unique_ptr<MetricsEndpoint> endpoint;
  std::unique_ptr<HealthEndpoint> health_endpoint;
  MemoryTrimmer trimmer{[this] {
    return Activity{service.open_calls().count(), service.bytes()};
  }};
  std::vector<std::string> addresses;
  std::optional<OwnedFile> ready_file;
};

Status Server::Impl::Secure(const ServerConfig& config, spdlog::logger& log) {
  const SecurityConfig& security = config.security;
  if (security.tls()) {
    Result<std::unique_ptr<ServerTls>> made = ServerTls::Start(
        {security.tls_cert, security.tls_key, security.tls_client_ca}, log);
    if (!made.ok()) return made.status();
    tls = *std::move(made);
  }
  Result<std::unique_ptr<Authenticator>> made =
      Authenticator::Start(security, log);
  if (!made.ok()) return made.status();
  authenticator = *std::move(made);
  admission.SetAuthenticator(authenticator.get());
  if (!security.auth_tokens_file.empty() && tls == nullptr &&
      !std::ranges::all_of(config.listen, [](const std::string& address) {
        return IsUnixAddress(address) || IsLoopback(address);
      })) {
    log.warn(
        "TLS is off: bearer tokens are sent unencrypted, which is safe only "
        "behind a proxy that terminates TLS");
  }
  return {};
}

void Server::Impl::AddMetrics(const spdlog::logger& log) {
  const v1::Capabilities capabilities = engine.GetCapabilities();
  metrics.SetBuild(capabilities.backends().rbegin()->instruction_set());
  const auto gauge = [this](const char* name, const char* help, auto value) {
    metrics.registry()->AddGauge(
        name, help, [value] { return static_cast<double>(value()); });
  };
  const auto counter = [this](const char* name, const char* help, auto value) {
    metrics.registry()->AddCounter(
        name, help, [value] { return static_cast<double>(value()); });
  };
  gauge("topk_inflight_calls",
        "Number of calls in flight, idle streams included",
        [this] { return admission.in_flight().calls(); });
  gauge("topk_inflight_bytes", "Memory charged to calls in flight, in bytes",
        [this] { return admission.in_flight().bytes(); });
  gauge("topk_max_inflight_calls", "Max number of calls in flight",
        [this] { return admission.in_flight().limits().calls; });
  gauge("topk_max_inflight_bytes",
        "Max memory charged to calls in flight, in bytes",
        [this] { return admission.in_flight().limits().bytes; });
  if (!engine.Devices().devices.empty()) {
    AddDeviceMetrics(engine, *metrics.registry());
  }
  gauge("topk_queue_depth", "Number of jobs queued or running on workers",
        [this] { return service.work().jobs(); });
  counter("topk_connections_rejected_total",
          "Connections closed because a limit of connections or of file "
          "descriptors was reached",
          [this] { return acceptor.has_value() ? acceptor->rejected() : 0; });
  counter("topk_log_dropped_total",
          "Log lines dropped because they were not written fast enough",
          [&log] { return DroppedLines(log); });
  counter("topk_log_suppressed_total",
          "Log lines of failed or slow requests above the rate limit",
          [this] { return access_log.suppressed(); });
}

Status Server::Impl::ListenByAcceptor(const ServerConfig& config,
                                      grpc::ServerBuilder& builder,
                                      spdlog::logger& log) {
  acceptor.emplace(config.connections, /*max_replaced=*/0,
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
  addresses = acceptor->addresses();
  return {};
}

void Server::Impl::ListenByXds(const ServerConfig& config,
                               grpc::ServerBuilder& builder,
                               std::vector<int>& ports) const {
  // Two servers on one port would each get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (size_t i = 0; i < config.listen.size(); ++i) {
    // TLS of our own outranks the control plane's.
    builder.AddListeningPort(
        config.listen[i],
        tls == nullptr
            ? grpc::XdsServerCredentials(grpc::InsecureServerCredentials())
            : tls->Credentials(),
        &ports[i]);
  }
}

Status Server::Impl::Listen(const ServerConfig& config, spdlog::logger& log) {
  reflection = std::make_unique<ReflectionService>(
      std::vector<std::string>{TopKService::service_full_name(),
                               OipService::service_full_name(),
                               HealthService::kName},
      rpc_metrics, authenticator.get());
  unknown_methods =
      std::make_unique<UnknownMethods>(rpc_metrics, authenticator.get());

  grpc::XdsServerBuilder xds_builder;
  xds_builder.set_status_notifier(&xds_status);
  grpc::ServerBuilder plain_builder;
  grpc::ServerBuilder& builder = config.xds ? xds_builder : plain_builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&service.rpc());
  builder.RegisterService(&oip.rpc());
  builder.RegisterService(&health.rpc());
  builder.RegisterService(&reflection->rpc());
  builder.RegisterAsyncGenericService(&unknown_methods->rpc());
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // Limits.max_output_bytes bounds it
  // Messages that are arriving, which nobody here has seen yet.
  grpc::ResourceQuota memory("topkd");
  memory.Resize(static_cast<size_t>(
      Or(config.max_receive_memory, kPartReceived, MemoryLimit())));
  builder.SetResourceQuota(memory);
  ApplyConnectionOptions(config.connections, builder);
  std::vector<int> xds_ports(config.listen.size());
  if (config.xds) {
    ListenByXds(config, builder, xds_ports);
  } else if (Status s = ListenByAcceptor(config, builder, log); !s.ok()) {
    return s;
  }
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  grpc = builder.BuildAndStart();
  loop = std::make_unique<EventLoop>(
      std::move(queue), PollersFor(config.pollers, threads),
      [this](std::chrono::nanoseconds busy) { poller_busy.Observe(busy); });
  for (size_t i = 0; config.xds && i < config.listen.size(); ++i) {
    // gRPC stops at the first address that fails: it has port 0.
    if (xds_ports[i] == 0) {
      return CannotBind("LISTEN", "listen", "listen on", config.listen[i]);
    }
    addresses.push_back(WithPort(config.listen[i], xds_ports[i]));
  }
  if (grpc == nullptr) {
    return {Code::kInternal, "START", "", "gRPC could not start the server"};
  }
  service.Start(*loop);
  oip.Start(*loop);
  health.Start(*loop);
  reflection->Start(*loop);
  unknown_methods->Start(*loop);
  if (acceptor.has_value()) acceptor->Start();
  return {};
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  impl_->ready_file.reset();
  impl_->acceptor.reset();
  if (impl_->grpc != nullptr) {
    impl_->grpc->Shutdown(std::chrono::system_clock::now());
    impl_->loop.reset();
  }
}

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                              spdlog::logger& log) {
  if (Status s = CheckEnvironment(config); !s.ok()) return s;
  // It would announce this server before it serves.
  if (!config.ready_file.empty()) RemoveStaleReadyFile(config.ready_file);
  std::unique_ptr<Server> server(
      new Server(std::make_unique<Impl>(config, log)));
  Impl& impl = *server->impl_;
  if (Status s = impl.Secure(config, log); !s.ok()) return s;
  if (Status s = impl.Listen(config, log); !s.ok()) return s;
  if (!config.metrics_listen.empty()) {
    Result<std::unique_ptr<MetricsEndpoint>> endpoint =
        MetricsEndpoint::Start(config.metrics_listen, impl.metrics.registry());
    if (!endpoint.ok()) return endpoint.status();
    impl.endpoint = *std::move(endpoint);
  }
  if (!config.health_listen.empty()) {
    Result<std::unique_ptr<HealthEndpoint>> endpoint = HealthEndpoint::Start(
        config.health_listen, impl.health_state, impl.rpc_metrics);
    if (!endpoint.ok()) return endpoint.status();
    impl.health_endpoint = *std::move(endpoint);
  }
  if (!config.admin_listen.empty()) {
    Result<std::unique_ptr<AdminServer>> admin =
        AdminServer::Start(config.admin_listen, impl.rpc_metrics);
    if (!admin.ok()) return admin.status();
    impl.admin = *std::move(admin);
  }
  impl.metrics.SetReady(true);
  if (!config.ready_file.empty()) {
    Result<OwnedFile> written =
        WriteReadyFile(config.ready_file, server->addresses(),
                       {{"metrics", server->metrics_address()},
                        {"health", server->health_address()},
                        {"admin", server->admin_address()}});
    if (!written.ok()) return written.status();
    impl.ready_file.emplace(*std::move(written));
  }
  return server;
}

Status Server::Check(const ServerConfig& config, spdlog::logger& log) {
  if (Status s = CheckEnvironment(config); !s.ok()) return s;
  return Impl(config, log).Secure(config, log);
}

const std::vector<std::string>& Server::addresses() const {
  return impl_->addresses;
}

std::string Server::metrics_address() const {
  return impl_->endpoint == nullptr ? "" : impl_->endpoint->address();
}

std::string Server::health_address() const {
  return impl_->health_endpoint == nullptr ? ""
                                           : impl_->health_endpoint->address();
}

std::string Server::admin_address() const {
  return impl_->admin == nullptr ? "" : impl_->admin->address();
}

void Server::Drain(std::chrono::milliseconds delay,
                   std::chrono::milliseconds timeout) {
  impl_->metrics.SetReady(false);
  // All names at once, and it stays so.
  impl_->health_state.Stop();
  std::this_thread::sleep_for(delay);
  const auto start = std::chrono::steady_clock::now();
  OpenCalls& calls = impl_->service.open_calls();
  // No new connections are accepted, and connected clients move to other
  // servers without an error. Calls sent before the client receives the GOAWAY
  // are still served; they arrive within a round trip.
  constexpr std::chrono::milliseconds kCrossing{500};
  if (impl_->acceptor.has_value()) impl_->acceptor->Stop();
  if (SendGoaways(*impl_->grpc)) {
    std::this_thread::sleep_for(std::min(kCrossing, timeout));
  }
  // gRPC must not begin to shut down before the last call has ended: it may
  // keep one that crosses that until the deadline.
  impl_->admission.Close();
  calls.WaitUntilNone(start + timeout);
  const auto deadline =
      std::chrono::system_clock::now() +
      std::max<std::chrono::steady_clock::duration>(
          start + timeout - std::chrono::steady_clock::now(), {});
  const std::future<void> done =
      std::async(std::launch::async, [&] { impl_->grpc->Shutdown(deadline); });
  // gRPC would wait on, for health watches and for idle connections, whose
  // clients may take 10 s to notice. No call for two rounds is the end: one may
  // be between gRPC and its count, and the news of the drain needs a moment.
  int quiet_rounds = 0;
  while (done.wait_for(std::chrono::milliseconds(100)) !=
         std::future_status::ready) {
    quiet_rounds = calls.count() == 0 ? quiet_rounds + 1 : 0;
    if (quiet_rounds >= 2) {
      grpc_server_cancel_all_calls(impl_->grpc->c_server());
    }
  }
}

}  // namespace topk
