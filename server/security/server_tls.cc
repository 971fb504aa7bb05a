#include "server/security/server_tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <cstdlib>
#include <ctime>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/security/certificates.h"

namespace topk {

// The newest good contents of the files, and who asks for them.
class ServerTls::Material {
 public:
  Material(Files files, spdlog::logger& log);
  ~Material();

  bool verifies_clients() const { return !files_.client_ca.empty(); }

  std::vector<NamedFile> WhatToWatch() const {
    std::vector<NamedFile> watched = {{"--tls-cert", files_.certificate},
                                      {"--tls-key", files_.key}};
    if (verifies_clients()) {
      watched.push_back({"--tls-client-ca", files_.client_ca});
    }
    return watched;
  }

  Status Load(const std::vector<std::string>& contents) {
    const std::vector<NamedFile> names = WhatToWatch();
    const Result<CertificateInfo> info =
        CheckKeyPair({names[0], contents[0]}, {names[1], contents[1]});
    if (!info.ok()) return info.status();
    if (verifies_clients()) {
      if (Status s = CheckCaBundle({names[2], contents[2]}); !s.ok()) return s;
    }
    log_.info("TLS with the certificate of {}, serial {}, valid until {}{}",
              info->subject, info->serial, UtcText(info->not_after),
              verifies_clients() ? "; clients need one too" : "");
    if (info->not_before > std::time(nullptr)) {
      log_.warn("the certificate is not valid before {}",
                UtcText(info->not_before));
    }
    const std::lock_guard lock(mutex_);
    contents_ = contents;
    ++version_;
    return {};
  }

  // Adds a port to a server. Returns its number, 0 for a failure.
  int AddPort(const std::string& address, grpc_server* server);

  // Returns what is newer than that version, or null. The caller owns it.
  grpc_ssl_server_certificate_config* Newer(int64_t& version) const {
    const std::lock_guard lock(mutex_);
    if (version == version_) return nullptr;
    version = version_;
    const grpc_ssl_pem_key_cert_pair pair = {contents_[1].c_str(),
                                             contents_[0].c_str()};
    // gRPC wants authorities also where it asks for no certificate.
    return grpc_ssl_server_certificate_config_create(
        contents_[verifies_clients() ? 2 : 0].c_str(), &pair, 1);
  }

 private:
  const Files files_;
  spdlog::logger& log_;
  mutable std::mutex mutex_;
  std::vector<std::string> contents_;
  int64_t version_ = 0;
  std::vector<std::unique_ptr<Port>> ports_;
};

// One listening port, which gRPC asks at each new connection whether there is
// something newer. It replaces what it has only by what it could set up.
//
// It does so under a lock, but takes what it has without one. That is safe as
// one thread at a time accepts from a socket; a port of two (a name with
// addresses of both families) would have to accept at both in that microsecond.
class ServerTls::Port {
 public:
  explicit Port(const Material& material) : material_(material) {}

  int Add(const std::string& address, grpc_server* server) {
    const auto clients =
        material_.verifies_clients()
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    grpc_server_credentials* credentials =
        grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                clients, Fetch, this));
    const int port =
        grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);  // the server has its own
    return port;
  }

 private:
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& port = *static_cast<Port*>(self);
    *config = port.material_.Newer(port.version_);
    return *config == nullptr ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED
                              : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const Material& material_;
  int64_t version_ = 0;  // gRPC asks one at a time
};

ServerTls::Material::Material(Files files, spdlog::logger& log)
    : files_(std::move(files)), log_(log) {}

ServerTls::Material::~Material() = default;

int ServerTls::Material::AddPort(const std::string& address,
                                 grpc_server* server) {
  ports_.push_back(std::make_unique<Port>(*this));
  return ports_.back()->Add(address, server);
}

// gRPC's C++ API has no credentials of the kind, its C API does. The builder
// drops them once the server is built.
class ServerTls::PortCredentials final : public grpc::ServerCredentials {
 public:
  explicit PortCredentials(Material& material) : material_(material) {}

  // Nothing of ours sets one.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    std::abort();
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return material_.AddPort(address, server);
  }

  Material& material_;
};

ServerTls::ServerTls(std::unique_ptr<Material> material)
    : material_(std::move(material)) {}

ServerTls::~ServerTls() = default;

Result<std::unique_ptr<ServerTls>> ServerTls::Start(
    const Files& files, spdlog::logger& log,
    std::chrono::milliseconds interval) {
  for (const auto& [flag, path] : {std::pair("--tls-cert", &files.certificate),
                                   std::pair("--tls-key", &files.key)}) {
    if (path->empty()) {
      return InvalidArgument(
          "TLS_FILE", flag,
          Cat("TLS needs --tls-cert and --tls-key; ", flag, " is not given"));
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
  return std::make_shared<PortCredentials>(*material_);
}

}  // namespace topk
