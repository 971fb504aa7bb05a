#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "core/backends/registry.h"
#include "core/base/text.h"
#include "core/common/target.h"
#include "server/admission/memory_limit.h"
#include "server/calls/grpc_server.h"
#include "server/calls/shared_state.h"
#include "server/calls/topk_service.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/graceful_goaway.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/health/health_service.h"
#include "server/memory_trimmer.h"
#include "server/metrics_endpoint.h"
#include "server/oip/oip_service.h"
#include "server/ready_file.h"
#include "server/security/authenticator.h"
#include "server/security/server_tls.h"
#include "server/telemetry/span_exporter.h"
#include "server/threads/periodic.h"
#include "server/transport/addresses.h"
#include "server/transport/connection_options.h"
#include "server/transport/owned_file.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

// After a GOAWAY, wait until no call has arrived for kRoundTrip. Wait at most
// kMaxLate, because a client may ignore the GOAWAY.
constexpr std::chrono::milliseconds kRoundTrip{500};
constexpr std::chrono::seconds kMaxLate{2};
// How often to check if an open stream's credentials were revoked or expired.
constexpr std::chrono::seconds kRecheckInterval{2};
// How often the drain tells open streams to end.
constexpr std::chrono::milliseconds kInterruptInterval{200};
// A draining server ends StreamTopK calls that receive no message for
// kMaxPause. At kTimeToReply before the drain timeout, the server ends all
// StreamTopK calls that are still receiving messages, so that their clients get
// an error that allows a retry.
constexpr std::chrono::seconds kMaxPause{5};
constexpr std::chrono::seconds kTimeToReply{1};
// How long to wait for calls that gRPC has received but not delivered, and for
// watchers of the health service to receive the last state.
constexpr std::chrono::milliseconds kQuiet{200};

// Moves the value of `started` to `to`, or returns the error in `started`.
template <class Part>
Status Keep(Result<std::unique_ptr<Part>> started, std::unique_ptr<Part>& to) {
  if (!started.ok()) return started.status();
  to = *std::move(started);
  return {};
}

// Builds a plaintext server with one poller and a connection limit, for the
// services of `builder` and the methods of `router`, which may be null. Sets
// `bound` to the address with the real port.
Result<std::unique_ptr<GrpcServer>> BuildSmallServer(
    const std::string& address, grpc::ServerBuilder& builder,
    CallRouter* router, std::string& bound, spdlog::logger& log) {
  builder.SetMaxReceiveMessageSize(kMaxHealthBytes);
  ApplySideConnectionOptions(builder);
  auto acceptor = std::make_unique<Acceptor>(SideConnectionOptions(),
                                             /*ipv6_prefix=*/64, &log);
  Status s =
      acceptor->Listen(address, builder, grpc::InsecureServerCredentials());
  if (!s.ok()) return s;
  bound = acceptor->addresses().front();
  return GrpcServer::Build(builder, std::move(acceptor), router);
}

void AddReloadMetrics(const WatchedFiles& files, MetricRegistry& registry) {
  for (size_t i = 0; i < files.files().size(); ++i) {
    registry.AddGauge(
        "topk_reload_failed",
        "1 while the file is invalid and its previous content is in use",
        [&files, i] { return files.Rejects(i); },
        {{"file", files.files()[i].flag.substr(2)}});
  }
}

// Sends a GOAWAY on all connections, but first ends the calls with many
// requests. Otherwise, gRPC would close the connection as soon as such a call
// ends, and a client that is still sending would lose responses. New calls are
// served meanwhile, and short calls end by themselves.
void SendFirstGoaways(SharedState& state, grpc::Server& grpc,
                      Clock::time_point deadline) {
  constexpr Clock::duration kMost = std::chrono::milliseconds(800);
  constexpr Clock::duration kStep = std::chrono::milliseconds(20);
  Observers& calls = state.open_calls.streams(/*many=*/true);
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = std::min(deadline, begin + kMost);
  const Clock::duration short_call = (end - begin) * 3 / 8;
  // From `last` on, only calls that have just arrived are not ended.
  const Clock::time_point last = end - (end - begin) / 4;
  for (auto now = begin; now < end && !calls.empty(); now = Clock::now()) {
    if (now >= begin + short_call) {
      state.admission.EndManyBefore(now - (now < last ? short_call : kStep));
      calls.Notify();
    }
    std::this_thread::sleep_for(kStep);
  }
  SendGoaways(grpc);
}

}  // namespace

// In order of dependency: each member may use the members before it.
struct Server::Parts {
  Status Prepare(const ServerConfig& config, spdlog::logger& log);
  void AddServices(const ServerConfig& config, spdlog::logger& log);
  Status BuildMain(const ServerConfig& config, spdlog::logger& log);
  Status BuildSideListeners(const ServerConfig& config, spdlog::logger& log);

  std::unique_ptr<ServerTls> tls;  // null: plain text
  std::unique_ptr<Authenticator> authenticator;
  std::unique_ptr<SpanExporter> spans;  // null: no traces
  std::unique_ptr<SharedState> state;
  HealthState health_state{
      {v1::TopKService::service_full_name(), kOipService, kHealthService}};
  std::unique_ptr<CallRouter> router;
  std::optional<Periodic> rechecker;  // of streams, if callers need credentials
  std::unique_ptr<GrpcServer> main;
  std::vector<std::string> addresses;
  // Null if not configured.
  std::unique_ptr<MetricsEndpoint> metrics;
  std::unique_ptr<CallRouter> health_router;
  std::unique_ptr<GrpcServer> health;
  std::unique_ptr<GrpcServer> admin;
  std::map<std::string, std::string> side_addresses;
  std::unique_ptr<Periodic> trimmer;
  std::optional<OwnedFile> ready_file;
};

// Checks the machine and the settings, and loads certificates and tokens.
Status Server::Parts::Prepare(const ServerConfig& config, spdlog::logger& log) {
  if (Status s = CheckEnvironment(
          {config.backend, config.device_memory_bytes, {}, {}});
      !s.ok()) {
    s.message =
        StrCat(s.field == "backend" ? "--" : "", s.field, ": ", s.message);
    return s;
  }
  for (const std::string& warning : config.traces.warnings) {
    log.warn("traces: {}", warning);
  }
  if (MemoryLimit(config.instances) < kLeastMemory) {
    log.warn(
        "the memory limit of {} MiB is less than {} MiB: large or many "
        "requests can exhaust the memory, and the kernel then ends the process",
        MemoryLimit(config.instances) >> 20, kLeastMemory >> 20);
  }
  const SecurityConfig& security = config.security;
  if (security.tls()) {
    Status s = Keep(ServerTls::Start(security, log), tls);
    if (!s.ok()) return s;
  }
  const auto is_local = [](const std::string& address) {
    return IsUnixAddress(address) || IsLoopback(address);
  };
  if (tls == nullptr && !std::ranges::all_of(config.listen, is_local)) {
    log.warn(
        security.auth_tokens_file.empty()
            ? "TLS and tokens are off: everyone who can reach the --listen "
              "addresses may call, and tensors are sent unencrypted"
            : "TLS is off: bearer tokens are sent unencrypted, which is "
              "safe only behind a proxy that terminates TLS");
  }
  return Keep(Authenticator::Start(
                  security, tls == nullptr ? nullptr : tls->clients(), log),
              authenticator);
}

void Server::Parts::AddServices(const ServerConfig& config,
                                spdlog::logger& log) {
  state =
      std::make_unique<SharedState>(config, *authenticator, spans.get(), log);
  router = std::make_unique<CallRouter>(*state->metrics.registry(),
                                        authenticator.get());
  AddTopKMethods(*state, *router);
  AddOipMethods(*state, health_state, *router);
  AddHealthMethods(health_state, DefaultMaxCalls(MemoryLimit(config.instances)),
                   *router);
  if (authenticator->needs_credentials()) {
    rechecker.emplace(kRecheckInterval,
                      [&calls = state->open_calls] { calls.NotifyStreams(); });
  }
}

Status Server::Parts::BuildMain(const ServerConfig& config,
                                spdlog::logger& log) {
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutPlugins>());
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // limited by Limits.max_output_bytes
  // Limits the memory of incomplete messages, which admission does not count.
  grpc::ResourceQuota memory("topkd");
  memory.Resize(static_cast<size_t>(
      config.max_receive_memory > 0
          ? config.max_receive_memory
          : DefaultReceiveMemory(MemoryLimit(config.instances))));
  builder.SetResourceQuota(memory);
  ApplyConnectionOptions(config.connections, builder);

  ConnectionOptions connections = config.connections;
  connections.shares_ports = config.instances > 1;
  connections.socket_buffer_bytes =
      SocketBufferBytes(MemoryLimit(config.instances));
  auto acceptor = std::make_unique<Acceptor>(
      connections, config.security.client_ipv6_prefix, &log);
  for (const std::string& address : config.listen) {
    const bool plain = tls == nullptr || IsUnixAddress(address);
    Status s = acceptor->Listen(
        address, builder,
        plain ? grpc::InsecureServerCredentials() : tls->Credentials(),
        config.unix_socket_mode);
    if (!s.ok()) return s;
  }
  addresses = acceptor->addresses();
  state->metrics.registry()->AddCounter(
      "topk_connections_rejected_total",
      "Connections closed because a limit of connections or of file "
      "descriptors was reached",
      [&bound = *acceptor] { return bound.rejected(); });
  const int pollers =
      config.pollers > 0 ? config.pollers : std::max(1, state->threads / 2);
  return Keep(
      GrpcServer::Build(
          builder, std::move(acceptor), router.get(), pollers,
          [&all_metrics = state->metrics, &log](std::chrono::nanoseconds busy) {
            all_metrics.RecordPollerBusy(busy, log);
          }),
      main);
}

Status Server::Parts::BuildSideListeners(const ServerConfig& config,
                                         spdlog::logger& log) {
  if (!config.health_listen.empty()) {
    health_router =
        std::make_unique<CallRouter>(*state->metrics.registry(), nullptr);
    AddHealthMethods(health_state,
                     DefaultMaxCalls(MemoryLimit(config.instances)),
                     *health_router);
    grpc::ServerBuilder builder;
    builder.SetOption(std::make_unique<WithoutPlugins>());
    Status s = Keep(
        BuildSmallServer(config.health_listen, builder, health_router.get(),
                         side_addresses["health"], log),
        health);
    if (!s.ok()) return s;
  }
  if (config.admin_listen.empty()) return {};
  // These functions affect all server builders that are used from now on.
  grpc::channelz::experimental::InitChannelzService();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // gRPC's built-in services need only one polling thread.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  return Keep(BuildSmallServer(config.admin_listen, builder, nullptr,
                               side_addresses["admin"], log),
              admin);
}

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                              spdlog::logger& log) {
  // A script that waits for the new file must not find the old file.
  if (Status s = RemoveStaleReadyFile(config.ready_file); !s.ok()) return s;
  auto parts = std::make_unique<Parts>();
  if (Status s = parts->Prepare(config, log); !s.ok()) return s;
  if (!config.traces.endpoint.empty()) {
    log.info("traces: spans are sent to {}", config.traces.endpoint);
    parts->spans = std::make_unique<SpanExporter>(config.traces, log);
  }
  parts->AddServices(config, log);
  Metrics& metrics = parts->state->metrics;
  if (parts->tls != nullptr) {
    metrics.registry()->AddGauge(
        "topk_certificate_expiry_timestamp_seconds",
        "When the server's certificate expires, in seconds since 1970",
        [&tls = *parts->tls] { return tls.expiry(); });
    if (!config.security.tls_client_crl.empty()) {
      metrics.registry()->AddGauge(
          "topk_revocation_list_expiry_timestamp_seconds",
          "When the first revocation list expires, in seconds since 1970",
          [&tls = *parts->tls] { return tls.clients()->lists_until(); });
    }
    AddReloadMetrics(parts->tls->files(), *metrics.registry());
  }
  if (const WatchedFiles* tokens = parts->authenticator->tokens_file()) {
    AddReloadMetrics(*tokens, *metrics.registry());
  }
  // Bind all addresses and write the ready file before accepting calls, which
  // an error here would end.
  if (Status s = parts->BuildMain(config, log); !s.ok()) return s;
  if (Status s = parts->BuildSideListeners(config, log); !s.ok()) return s;
  if (!config.metrics_listen.empty()) {
    Status s = Keep(
        MetricsEndpoint::Start(config.metrics_listen, metrics.registry(), log),
        parts->metrics);
    if (!s.ok()) return s;
    parts->side_addresses["metrics"] = parts->metrics->address();
  }
  metrics.SetReady(true);
  if (!config.ready_file.empty()) {
    Result<OwnedFile> file = WriteReadyFile(config.ready_file, parts->addresses,
                                            parts->side_addresses);
    if (!file.ok()) return file.status();
    parts->ready_file.emplace(*std::move(file));
  }
  for (const auto* built : {&parts->main, &parts->health, &parts->admin}) {
    if (*built != nullptr) (*built)->Serve();
  }
  if (GoawayFunction() == nullptr) {
    log.warn(
        "gRPC exports no function that sends GOAWAY, e.g. because it is linked "
        "statically: when this server drains, calls can fail with UNAVAILABLE");
  }
  parts->trimmer = TrimMemory();
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Status Server::Check(const ServerConfig& config, spdlog::logger& log) {
  return Parts().Prepare(config, log);
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() = default;

const std::vector<std::string>& Server::addresses() const {
  return parts_->addresses;
}

const std::map<std::string, std::string>& Server::side_addresses() const {
  return parts_->side_addresses;
}

void Server::Drain(std::chrono::milliseconds delay,
                   std::chrono::milliseconds timeout) {
  SharedState& state = *parts_->state;
  OpenCalls& calls = state.open_calls;
  grpc::Server& grpc = parts_->main->grpc();
  Acceptor& acceptor = parts_->main->acceptor();

  // Step 1; see server.h.
  state.metrics.SetReady(false);
  parts_->health_state.Stop();
  std::this_thread::sleep_for(delay / 2);
  if (delay.count() > 0) {
    SendFirstGoaways(state, grpc, Clock::now() + delay / 2);
  }
  std::this_thread::sleep_for(delay / 2);

  // Step 2.
  const Clock::time_point deadline = Clock::now() + timeout;
  acceptor.Stop();
  SendFirstGoaways(state, grpc, deadline);
  const Clock::time_point latest = std::min(deadline, Clock::now() + kMaxLate);
  // Repeat the GOAWAY for connections whose TLS handshake was not complete.
  while (SendGoaways(grpc) && calls.ArrivesWithin(kRoundTrip, latest)) continue;

  // Step 3. Wait for all calls to end before gRPC begins to shut down: a call
  // that arrives during the shutdown may stay open until the deadline.
  const Clock::time_point last_messages =
      deadline - std::min<Clock::duration>(kTimeToReply, timeout / 2);
  do {
    SendGoaways(grpc);
    state.admission.Close(
        Clock::now() < last_messages ? kMaxPause : std::chrono::seconds(0));
    calls.NotifyStreams();
    calls.WaitUntilNone(std::min(deadline, Clock::now() + kInterruptInterval));
  } while (calls.count() > 0 && Clock::now() < deadline);

  // Step 4. Shutdown() alone would wait for health watches and for idle
  // connections, whose clients may take 10 s to notice the shutdown.
  const auto left = std::max<Clock::duration>(deadline - Clock::now(), {});
  const std::future<void> done = std::async(
      std::launch::async, [&grpc, end = std::chrono::system_clock::now() +
                                        left] { grpc.Shutdown(end); });
  int64_t arrived = calls.arrived();
  while (done.wait_for(kQuiet) != std::future_status::ready) {
    if (calls.count() == 0 && calls.arrived() == arrived)
      grpc_server_cancel_all_calls(grpc.c_server());
    arrived = calls.arrived();
    if (Clock::now() >= deadline + kQuiet) acceptor.DisconnectAll();
  }
}

}  // namespace topk
