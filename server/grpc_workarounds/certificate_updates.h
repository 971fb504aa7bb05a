// Defect: gRPC 1.51's only public way to replace a server's certificate is
// FileWatcherCertificateProvider, which applies whatever it reads. Between a
// new certificate and its key every handshake fails, and a file that is not a
// certificate leaves the server with a dangling handshaker factory.
// Versions: 1.51 until a release with InMemoryCertificateProvider; 1.83 has it.
// Test: Reload.AnswersEveryCallDuringReloads
// (tests/integration/tls_reload_test.cc). Delete when the oldest supported gRPC
// has InMemoryCertificateProvider: its UpdateRoot() and
// UpdateIdentityKeyCertPair() replace this class.
#pragma once

#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <string>

#include "core/base/status.h"
#include "proto/library_versions.h"

namespace topk {

/// A certificate provider whose certificates change only as a whole, by
/// Update(). Not thread-safe, except for what gRPC calls.
class CertificateUpdates {
 public:
  CertificateUpdates();
  ~CertificateUpdates();
  CertificateUpdates(const CertificateUpdates&) = delete;
  CertificateUpdates& operator=(const CertificateUpdates&) = delete;

  /// Replaces the certificate, its key and the clients' authorities, all in PEM
  /// and valid. `client_ca` is "" in every update or in none. New connections
  /// use them, in gRPC without InMemoryCertificateProvider after a second.
  Status Update(const std::string& certificate, const std::string& key,
                const std::string& client_ca);

  /// The provider. Call Update() first.
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider()
      const;

 private:
#if TOPK_GRPC_AT_LEAST(83)
  const std::shared_ptr<grpc::experimental::InMemoryCertificateProvider>
      provider_;
#else
  // A file in memory that FileWatcherCertificateProvider reads. Its path stays
  // the same while its content is replaced at once.
  class MemoryFile;

  std::unique_ptr<MemoryFile> identity_;  // the key and the certificate
  std::unique_ptr<MemoryFile> client_ca_;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
#endif
};

}  // namespace topk
