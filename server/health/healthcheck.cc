#include "server/health/healthcheck.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/security/certificates.h"
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
  const bool tls = config.tls || !config.tls_server_name.empty() ||
                   !options.pem_root_certs.empty() ||
                   !options.pem_cert_chain.empty();
  return tls ? grpc::SslCredentials(options)
             : grpc::InsecureChannelCredentials();
}

}  // namespace

int RunHealthcheck(const HealthcheckConfig& config) {
  using grpc::health::v1::Health;
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::microseconds(
                            static_cast<int64_t>(config.timeout_seconds * 1e6));
  // The probe of a container asks its own server, whatever http_proxy says.
  const auto credentials = Credentials(config);
  if (!credentials.ok()) {
    return Fail(kWrongArguments, credentials.status().message);
  }
  grpc::ChannelArguments arguments;
  if (!config.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(config.tls_server_name);
  }
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(config.target, *credentials, arguments);
  if (!channel->WaitForConnected(deadline)) {
    return Fail(kNoConnection,
                "no connection to " + config.target + " in time");
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
