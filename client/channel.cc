#include "client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "core/base/text.h"
#include "core/common/target.h"

namespace topk {
namespace {

// A connection is closed if the server accepts no bytes for this long.
// Otherwise, a stalled server could block a call forever.
constexpr int kStuckMilliseconds = 10'000;
// gRPC sets TCP_USER_TIMEOUT only if keepalive pings are enabled. Servers
// reject ping intervals below 5 minutes.
constexpr int kPingMilliseconds = 600'000;
// The initial and the maximum backoff between connection attempts. gRPC's
// defaults are 1 s and 2 minutes. With 1 s, only two connection attempts would
// fit into a call's retries. If one of two servers behind an address is dead,
// both attempts may reach the dead server.
constexpr int kFirstReconnectMilliseconds = 100;
constexpr int kReconnectMilliseconds = 10'000;
// The minimum time between two DNS queries. A rolling update can replace all
// servers within gRPC's default of 30 s.
constexpr int kResolveMilliseconds = 1000;

constexpr char kServiceConfig[] =
    R"({"loadBalancingConfig": [{"round_robin": {}}]})";

// Prefixes a list of addresses with the scheme that gRPC needs: "ipv6:" if the
// first address is in brackets, otherwise "ipv4:".
std::string Target(const std::string& target) {
  const bool list = target.find(',') != std::string::npos &&
                    target.find('/') == std::string::npos &&
                    target.rfind("ipv", 0) != 0;
  if (!list) return target;
  return (target.front() == '[' ? "ipv6:" : "ipv4:") + target;
}

bool Has(const grpc::ChannelArguments& arguments, std::string_view name) {
  const grpc_channel_args args = arguments.c_channel_args();
  return std::ranges::any_of(std::span(args.args, args.num_args),
                             [&](const grpc_arg& a) { return a.key == name; });
}

std::shared_ptr<grpc::ChannelInterface> Connect(const ClientOptions& options,
                                                bool is_valid) {
  grpc::ChannelArguments arguments;
  if (options.channel_arguments) arguments = *options.channel_arguments;
  const auto set = [&arguments](const char* name, int value) {
    if (!Has(arguments, name)) arguments.SetInt(name, value);
  };
  if (!Has(arguments, GRPC_ARG_SERVICE_CONFIG)) {
    arguments.SetServiceConfigJSON(kServiceConfig);
  }
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kStuckMilliseconds);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMilliseconds);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMilliseconds);
  set(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveMilliseconds);
  // Leave retries to ClientCall. gRPC's own retries may wait past the
  // deadline, and then lose the server's status. Also, gRPC 1.51 may skip a
  // message when it resends a stream after a connection breaks.
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetUserAgentPrefix(StrCat(options.user_agent,
                                      options.user_agent.empty() ? "" : " ",
                                      "topk-client-cpp/" TOPK_VERSION));
  if (!options.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls_server_name);
  }
  // A proxy must not see a token that is sent without TLS.
  if (!options.token_file.empty() && !IsSecure(options)) {
    set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  }
  return grpc::CreateCustomChannel(
      Target(options.target),
      is_valid ? MakeCredentials(options) : grpc::InsecureChannelCredentials(),
      arguments);
}

}  // namespace

Connection::Connection(const ClientOptions& client_options)
    : options(client_options),
      setup(Client::Check(options)),
      token(options.token_file),
      copies(IsUnixAddress(options.target)),
      channel(Connect(options, setup.ok())),
      stub(channel) {}

}  // namespace topk
