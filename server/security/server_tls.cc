#include "server/security/server_tls.h"

#include <grpcpp/security/tls_credentials_options.h>

#include <atomic>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/security/certificates.h"
#include "proto/library_versions.h"
#include "server/grpc_workarounds/certificate_updates.h"

namespace topk {

// The newest valid contents of the files.
class ServerTls::Material {
 public:
  Material(const Files& files, spdlog::logger& log) : files_(files), log_(log) {
    if (files.client_ca.empty()) return;
    clients_.emplace(
        ClientCertificates::Files{files.client_ca, files.client_crl}, log);
  }

  bool verifies_clients() const { return clients_.has_value(); }

  std::vector<NamedFile> WhatToWatch() const {
    std::vector<NamedFile> watched = {{"--tls-cert", files_.certificate},
                                      {"--tls-key", files_.key}};
    if (verifies_clients()) {
      watched.push_back({"--tls-client-ca", files_.client_ca});
      if (!files_.client_crl.empty()) {
        watched.push_back({"--tls-client-crl", files_.client_crl});
      }
    }
    return watched;
  }

  Status Load(const std::vector<std::string>& contents) {
    const std::vector<NamedFile> names = WhatToWatch();
    const Result<CertificateInfo> info =
        CheckKeyPair({names[0], contents[0]}, {names[1], contents[1]});
    if (!info.ok()) return info.status();
    // Before the handshakes change, so that no client connects whose calls
    // would fail.
    if (verifies_clients()) {
      Status s =
          clients_->Load(contents[2], contents.size() > 3 ? contents[3] : "");
      if (!s.ok()) return s;
    }
    log_.info("TLS with the certificate of {}, serial {}, valid until {}{}",
              info->subject, info->serial, UtcText(info->not_after),
              verifies_clients() ? "; clients need one too" : "");
    if (info->not_before > std::time(nullptr)) {
      log_.warn("the certificate is not valid before {}",
                UtcText(info->not_before));
    }
    Status updated = certificates_.Update(
        contents[0], contents[1], verifies_clients() ? contents[2] : "");
    if (updated.ok()) expiry_ = info->not_after;
    return updated;
  }

  const ClientCertificates* clients() const {
    return verifies_clients() ? &*clients_ : nullptr;
  }

  std::time_t expiry() const { return expiry_; }

  std::shared_ptr<grpc::ServerCredentials> Credentials() const {
    grpc::experimental::TlsServerCredentialsOptions options =
        MakeServerTlsOptions(certificates_.provider(), verifies_clients());
    options.set_cert_request_type(
        verifies_clients()
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    return grpc::experimental::TlsServerCredentials(options);
  }

 private:
  const Files files_;
  spdlog::logger& log_;
  std::optional<ClientCertificates> clients_;  // none: clients need none
  CertificateUpdates certificates_;
  std::atomic<std::time_t> expiry_ = 0;
};

ServerTls::ServerTls(std::unique_ptr<Material> material)
    : material_(std::move(material)) {}

ServerTls::~ServerTls() = default;

const ClientCertificates* ServerTls::clients() const {
  return material_->clients();
}

std::time_t ServerTls::expiry() const { return material_->expiry(); }

Result<std::unique_ptr<ServerTls>> ServerTls::Start(
    const Files& files, spdlog::logger& log,
    std::chrono::milliseconds interval) {
  for (const auto& [flag, path] : {std::pair("--tls-cert", &files.certificate),
                                   std::pair("--tls-key", &files.key)}) {
    if (path->empty()) {
      return InvalidArgument("TLS_FILE", flag,
                             StrCat("TLS needs --tls-cert and --tls-key; ",
                                    flag, " is not given"));
    }
  }
  std::unique_ptr<ServerTls> tls(
      new ServerTls(std::make_unique<Material>(files, log)));
  Material& material = *tls->material_;
  Result<std::unique_ptr<WatchedFiles>> watched = WatchedFiles::Start(
      material.WhatToWatch(),
      [&material](const auto& contents) { return material.Load(contents); },
      log, interval);
  if (!watched.ok()) return watched.status();
  tls->files_ = *std::move(watched);
  return tls;
}

std::shared_ptr<grpc::ServerCredentials> ServerTls::Credentials() {
  return material_->Credentials();
}

}  // namespace topk
