// The server's end of TLS.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <spdlog/logger.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/security/client_certificates.h"
#include "server/security/watched_files.h"

namespace topk {

/// The server's certificate and key, and the authorities of its clients, taken
/// from files and again when these change. New connections get what is newest;
/// those that are open stay as they are. TLS 1.2 and 1.3. Thread-safe.
class ServerTls {
 public:
  /// PEM files. With `client_ca` a client must have a certificate that one of
  /// its authorities has signed; "" = client certificates are not requested.
  /// `client_crl` holds their revocation lists; "" = nothing is revoked.
  struct Files {
    std::string certificate;
    std::string key;
    std::string client_ca;
    std::string client_crl;
  };

  /// Loads the files, or returns what is wrong with one of them (see
  /// CheckKeyPair). Later the last good ones stay in use, and an error is
  /// logged. The logger outlives it.
  static Result<std::unique_ptr<ServerTls>> Start(
      const Files& files, spdlog::logger& log,
      std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~ServerTls();

  /// Returns the credentials of a listener, which outlive neither the server
  /// nor this object.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

  /// Checks the certificates of clients; null if clients need none. It changes
  /// with the credentials.
  const ClientCertificates* clients() const;

  /// Returns when the certificate in use expires.
  std::time_t expiry() const;

 private:
  class Material;

  explicit ServerTls(std::unique_ptr<Material> material);

  const std::unique_ptr<Material> material_;
  std::unique_ptr<WatchedFiles> files_;
};

}  // namespace topk
