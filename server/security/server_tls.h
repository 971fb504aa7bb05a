// TLS for the server.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <spdlog/logger.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/grpc_workarounds/certificate_updates.h"
#include "server/security/authenticator.h"
#include "server/security/client_certificates.h"
#include "server/security/watched_files.h"
#include "topk/status.h"

namespace topk {

/// Holds the server's certificate, its key, and the CA certificates for
/// clients. Reloads the files when they change. New connections use the newest
/// valid contents. Supports TLS 1.2 and 1.3. Thread-safe.
class ServerTls {
 public:
  /// Loads the files named in `config`. Returns an error if a file is invalid
  /// (see CheckKeyPair()). If a file becomes invalid later, logs the error and
  /// keeps the previous contents. `log` must outlive the result.
  static Result<std::unique_ptr<ServerTls>> Start(const SecurityConfig& config,
                                                  spdlog::logger& log);

  /// Returns credentials for a listener. The listener must not outlive this
  /// object or the server.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  /// Returns the checker of client certificates, or null if clients need no
  /// certificate. The checker is updated together with the credentials.
  const ClientCertificates* clients() const {
    return clients_.has_value() ? &*clients_ : nullptr;
  }

  const WatchedFiles& files() const { return *watched_; }

  /// Returns the expiry time of the certificate in use.
  std::time_t expiry() const { return expiry_; }

 private:
  ServerTls(const SecurityConfig& config, spdlog::logger& log);

  Status Load(const std::vector<std::string>& contents);

  spdlog::logger& log_;
  std::vector<NamedFile> files_;
  std::optional<ClientCertificates> clients_;
  CertificateUpdates certificates_;
  std::atomic<std::time_t> expiry_ = 0;
  std::unique_ptr<WatchedFiles> watched_;  // last, because it calls Load()
};

}  // namespace topk
