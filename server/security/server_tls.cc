#include "server/security/server_tls.h"

#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "core/base/text.h"
#include "core/common/certificates.h"
#include "proto/library_versions.h"

namespace topk {

ServerTls::ServerTls(const SecurityConfig& config, spdlog::logger& log)
    : log_(log),
      files_({{"--tls-cert", config.tls_cert}, {"--tls-key", config.tls_key}}) {
  if (config.tls_client_ca.empty()) return;
  clients_.emplace(
      ClientCertificates::Files{config.tls_client_ca, config.tls_client_crl},
      log);
  files_.push_back({"--tls-client-ca", config.tls_client_ca});
  if (!config.tls_client_crl.empty()) {
    files_.push_back({"--tls-client-crl", config.tls_client_crl});
  }
}

Result<std::unique_ptr<ServerTls>> ServerTls::Start(
    const SecurityConfig& config, spdlog::logger& log) {
  std::unique_ptr<ServerTls> tls(new ServerTls(config, log));
  for (const NamedFile& file : tls->files_) {
    if (file.path.empty()) {
      return InvalidArgument("TLS_FILE", file.flag,
                             StrCat("TLS needs --tls-cert and --tls-key; ",
                                    file.flag, " is not given"));
    }
  }
  Result<std::unique_ptr<WatchedFiles>> watched = WatchedFiles::Start(
      tls->files_,
      [self = tls.get()](const auto& contents) { return self->Load(contents); },
      log);
  if (!watched.ok()) return watched.status();
  tls->watched_ = *std::move(watched);
  return tls;
}

Status ServerTls::Load(const std::vector<std::string>& contents) {
  const Result<CertificateInfo> info =
      CheckKeyPair({files_[0], contents[0]}, {files_[1], contents[1]});
  if (!info.ok()) return info.status();
  const std::string client_ca = clients_.has_value() ? contents[2] : "";
  // Accept a new certificate authority for calls first and then for handshakes.
  // Otherwise, a client could connect, but its calls would be rejected.
  if (clients_.has_value()) {
    Status s =
        clients_->Load(client_ca, contents.size() > 3 ? contents[3] : "");
    if (!s.ok()) return s;
  }
  log_.info("TLS with the certificate of {}, serial {}, valid until {}{}",
            info->subject, info->serial, UtcText(info->not_after),
            clients_.has_value() ? "; clients need a certificate too" : "");
  if (info->not_before > std::time(nullptr)) {
    log_.warn("the certificate is not valid before {}",
              UtcText(info->not_before));
  }
  Status updated = certificates_.Update(contents[0], contents[1], client_ca);
  if (updated.ok()) expiry_ = info->not_after;
  return updated;
}

std::shared_ptr<grpc::ServerCredentials> ServerTls::Credentials() const {
  grpc::experimental::TlsServerCredentialsOptions options =
      MakeServerTlsOptions(certificates_.provider(), clients_.has_value());
  options.set_cert_request_type(
      clients_.has_value()
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace topk
