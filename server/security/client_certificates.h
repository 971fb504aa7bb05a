// Checks client certificates on every call.
#pragma once

#include <spdlog/logger.h>

#include <cstddef>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/common/bearer_token.h"
#include "core/common/certificates.h"
#include "core/common/mutex.h"
#include "topk/status.h"

namespace topk {

/// Decides whether a client's certificate is valid now. TLS checks it only in
/// the first handshake of a session, but it may expire or be revoked later, or
/// its authority may be removed. Caches verdicts until a file changes or a
/// certificate or revocation list expires, and rejections for one second.
/// Thread-safe. Verifies certificates without blocking other threads.
class ClientCertificates {
 public:
  /// Paths of PEM files.
  struct Files {
    std::string authorities;
    /// Revocation lists. If empty, no certificate is revoked. Otherwise, each
    /// authority in a certificate's chain must have an unexpired list.
    std::string revoked;
  };

  /// `log` must outlive this object.
  ClientCertificates(Files files, spdlog::logger& log)
      : files_(std::move(files)), log_(log) {}

  /// Replaces the authorities and the revocation lists with the given file
  /// contents. If either is invalid, returns the error and keeps the previous
  /// contents. Load() must succeed once before Check() is called.
  Status Load(const std::string& authorities, const std::string& revoked);

  /// When the first of the revocation lists expires, or the maximum if none
  /// does.
  std::time_t lists_until() const {
    const MutexLock lock(mutex_);
    return trust_->lists_until;
  }

  /// Returns OK, or UNAUTHENTICATED with reason CERTIFICATE_NOT_VALID.
  /// `certificate` and `chain`, the certificates sent with it, are in PEM
  /// format. `chain` is empty for a resumed session.
  Status Check(std::string_view certificate, std::string_view chain) const;

 private:
  using Certificates = std::vector<std::shared_ptr<X509>>;
  // The contents of the files.
  struct Trust {
    std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store;
    std::time_t lists_until;
  };
  struct Verdict {
    Status status;
    std::time_t until = 0;
    Certificates intermediates;  // of the verified chain
  };

  Verdict Verify(const Trust& trust, const Certificates& intermediates,
                 std::string_view certificate, std::string_view chain) const;
  void AddIntermediates(Certificates verified) const TOPK_REQUIRES(mutex_);

  const Files files_;
  spdlog::logger& log_;
  mutable Mutex mutex_;
  std::shared_ptr<const Trust> trust_ TOPK_GUARDED_BY(mutex_);
  // Maps valid certificates to the times when they must be verified again. The
  // chain is not part of the key: a certificate that is valid with one chain
  // needs no other chain, and a client cannot fill the cache with chains.
  mutable std::map<std::string, std::time_t, std::less<>> accepted_
      TOPK_GUARDED_BY(mutex_);
  mutable size_t accepted_bytes_ TOPK_GUARDED_BY(mutex_) = 0;
  // By the hash of the certificate and its chain.
  mutable std::map<TokenHash, Verdict> rejected_ TOPK_GUARDED_BY(mutex_);
  // Kept for resumed sessions, which do not send intermediate certificates.
  mutable Certificates intermediates_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
