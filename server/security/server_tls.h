// The server's side of TLS.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <spdlog/logger.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/grpc_workarounds/certificate_updates.h"
#include "server/security/authenticator.h"
#include "server/security/client_certificates.h"
#include "server/security/watched_files.h"

namespace topk {

/// The server's certificate and key, and the authorities of its clients, from
/// files that are reloaded when they change. New connections use the newest
/// valid files. TLS 1.2 and 1.3. Thread-safe.
class ServerTls {
 public:
  /// Loads the files that the settings name, or returns the error in one of
  /// them (see CheckKeyPair()). If the files change later and one of them is
  /// not valid, the previous contents stay in use and the error is logged. The
  /// logger must outlive the result.
  static Result<std::unique_ptr<ServerTls>> Start(const SecurityConfig& config,
                                                  spdlog::logger& log);

  /// Returns the credentials of a listener. The server and this object must
  /// outlive them.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  /// Checks the certificates of clients; null if clients need none. Changes
  /// together with the credentials.
  const ClientCertificates* clients() const {
    return clients_.has_value() ? &*clients_ : nullptr;
  }

  /// Returns when the certificate in use expires.
  std::time_t expiry() const { return expiry_; }

 private:
  ServerTls(const SecurityConfig& config, spdlog::logger& log);

  // Applies the contents of the files.
  Status Load(const std::vector<std::string>& contents);

  spdlog::logger& log_;
  std::vector<NamedFile> files_;
  std::optional<ClientCertificates> clients_;
  CertificateUpdates certificates_;
  std::atomic<std::time_t> expiry_ = 0;
  std::unique_ptr<WatchedFiles> watched_;  // last, because it calls Load()
};

}  // namespace topk
