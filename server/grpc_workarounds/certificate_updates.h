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

#include <ctime>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "proto/library_versions.h"

namespace topk {

/// A certificate provider whose certificates change only as a whole, by
/// Update(). Not thread-safe, except for what gRPC calls.
class CertificateUpdates {
 public:
  using Provider = grpc::experimental::CertificateProviderInterface;

  CertificateUpdates() = default;
  ~CertificateUpdates();
  CertificateUpdates(const CertificateUpdates&) = delete;
  CertificateUpdates& operator=(const CertificateUpdates&) = delete;

  /// Replaces the certificate, its key and the authorities of clients, all in
  /// PEM and valid. `client_ca` is "" in every update or in none. New
  /// connections use them at once, or after a second if gRPC has no
  /// InMemoryCertificateProvider.
  Status Update(const std::string& certificate, const std::string& key,
                const std::string& client_ca);

  /// Returns the provider. REQUIRES: Update() was called.
  std::shared_ptr<Provider> provider() const { return provider_; }

 private:
#if TOPK_GRPC_AT_LEAST(83)
  using InMemory = grpc::experimental::InMemoryCertificateProvider;
  const std::shared_ptr<InMemory> provider_ = std::make_shared<InMemory>();
#else
  // Files in memory, which FileWatcherCertificateProvider reads. Update()
  // replaces them, but their paths below /proc/self/fd stay the same.
  int identity_ = -1;  // the key and the certificate
  int client_ca_ = -1;
  time_t version_ = 0;
  std::shared_ptr<Provider> provider_;
#endif
};

}  // namespace topk
