// Defect: in gRPC 1.51, the only public way to replace a server's certificate
// is FileWatcherCertificateProvider, which does not check the files. All
// handshakes fail between the write of a new certificate and the write of its
// key. A file that is not a certificate leaves the server with a dangling
// handshaker factory.
// Versions: 1.51 and later versions without InMemoryCertificateProvider. 1.83
// has InMemoryCertificateProvider.
// Test: Reload.AnswersEveryCallDuringReloads
// (tests/integration/security_test.cc).
// Delete when the oldest supported gRPC has InMemoryCertificateProvider: its
// UpdateRoot() and UpdateIdentityKeyCertPair() replace this class.
#pragma once

#include <grpcpp/security/tls_certificate_provider.h>

#include <ctime>
#include <memory>
#include <string>

#include "proto/library_versions.h"
#include "topk/status.h"

namespace topk {

/// A certificate provider whose contents can be replaced atomically. Update()
/// is not thread-safe.
class CertificateUpdates {
 public:
  using Provider = grpc::experimental::CertificateProviderInterface;

  CertificateUpdates() = default;
  ~CertificateUpdates();
  CertificateUpdates(const CertificateUpdates&) = delete;
  CertificateUpdates& operator=(const CertificateUpdates&) = delete;

  /// Replaces the certificate, its key and the CA certificates for clients. All
  /// must be valid PEM. `client_ca` must be empty either in all updates or in
  /// none. New connections use the new certificate at once, or after a second
  /// if gRPC has no InMemoryCertificateProvider.
  Status Update(const std::string& certificate, const std::string& key,
                const std::string& client_ca);

  /// REQUIRES: Update() was called.
  std::shared_ptr<Provider> provider() const { return provider_; }

 private:
#if TOPK_GRPC_AT_LEAST(83)
  using InMemory = grpc::experimental::InMemoryCertificateProvider;
  const std::shared_ptr<InMemory> provider_ = std::make_shared<InMemory>();
#else
  // In-memory files read by FileWatcherCertificateProvider. Update() replaces
  // the files, but their paths under /proc/self/fd stay the same.
  int identity_ = -1;  // key and certificate
  int client_ca_ = -1;
  time_t version_ = 0;
  std::shared_ptr<Provider> provider_;
#endif
};

}  // namespace topk
