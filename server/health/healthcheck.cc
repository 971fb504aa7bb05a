#include "server/health/healthcheck.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/security/certificates.h"
#include "core/security/target.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace topk {
namespace {

constexpr int kServing = 0;
constexpr int kWrongArguments = 1;
constexpr int kNoConnection = 2;
constexpr int kCallFailed = 3;
constexpr int kNotServing = 4;

int Fail(int status, const std::string& why) {
  std::cerr << "topkd healthcheck: " << why << "\n";
  return status;
}

bool UsesTls(const HealthcheckConfig& config) {
  return config.tls || !config.tls_server_name.empty() ||
         !config.tls_ca.empty() || !config.tls_cert.empty() ||
         !config.tls_key.empty();
}

// Returns how to connect, or what is wrong with the files.
Result<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const HealthcheckConfig& config) {
  grpc::SslCredentialsOptions options;
  if (!config.tls_ca.empty()) {
    PemFile ca{{"--tls-ca", config.tls_ca}, ""};
    if (Status s = ReadCaBundle(ca); !s.ok()) return s;
    options.pem_root_certs = std::move(ca.text);
  }
  if (!config.tls_cert.empty() || !config.tls_key.empty()) {
    PemFile certificate{{"--tls-cert", config.tls_cert}, ""};
    PemFile key{{"--tls-key", config.tls_key}, ""};
    if (Status s = ReadKeyPair(certificate, key); !s.ok()) return s;
    options.pem_cert_chain = std::move(certificate.text);
    options.pem_private_key = std::move(key.text);
  }
  return UsesTls(config) ? grpc::SslCredentials(options)
                         : grpc::InsecureChannelCredentials();
}

// Returns why a channel has no connection, which gRPC reports only to calls.
std::string Cause(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(100));
  grpc::health::v1::HealthCheckResponse response;
  return grpc::health::v1::Health::NewStub(channel)
      ->Check(&context, {}, &response)
      .error_message();
}

// Returns what to do if only one side uses TLS, or "".
std::string TlsHint(bool tls, const std::string& cause) {
  const auto has = [&cause](const char* part) {
    return cause.find(part) != std::string::npos;
  };
  if (!tls && (has("Socket closed") || has("Connection reset"))) {
    return "\nhint: the server may require TLS: --tls, or --tls-ca FILE; the "
           "port of its --health-listen does not";
  }
  if (tls && has("wrong version number")) {
    return "\nhint: the server does not use TLS: leave out the --tls flags";
  }
  return "";
}

}  // namespace

int RunHealthcheck(const HealthcheckConfig& config) {
  using grpc::health::v1::Health;
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::microseconds(
                            static_cast<int64_t>(config.timeout_seconds * 1e6));
  if (const std::string error = TargetError(config.target); !error.empty()) {
    return Fail(kWrongArguments, "--target: " + error);
  }
  // The probe of a container asks its own server, whatever http_proxy says.
  const auto credentials = Credentials(config);
  if (!credentials.ok()) {
    return Fail(kWrongArguments, EscapeControls(credentials.status().message));
  }
  grpc::ChannelArguments arguments;
  if (!config.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(config.tls_server_name);
  }
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(config.target, *credentials, arguments);
  if (!channel->WaitForConnected(deadline)) {
    const std::string cause = Cause(channel);
    return Fail(kNoConnection, StrCat("no connection to ", Quote(config.target),
                                      " in time: ", EscapeControls(cause),
                                      TlsHint(UsesTls(config), cause)));
  }
  grpc::ClientContext context;
  context.set_deadline(deadline);
  HealthCheckRequest request;
  request.set_service(config.service);
  HealthCheckResponse response;
  const grpc::Status status =
      Health::NewStub(channel)->Check(&context, request, &response);
  if (!status.ok()) {
    return Fail(kCallFailed,
                "the call failed: " + EscapeControls(status.error_message()));
  }
  if (response.status() != HealthCheckResponse::SERVING) {
    return Fail(kNotServing,
                HealthCheckResponse::ServingStatus_Name(response.status()));
  }
  return kServing;
}

}  // namespace topk
