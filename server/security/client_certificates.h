// Checks the certificates of clients at each call.
#pragma once

#include <spdlog/logger.h>

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/security/bearer_token.h"
#include "core/security/pem.h"

namespace topk {

/// Decides whether a client's certificate is valid now. TLS checks a
/// certificate only at the first handshake of a session; later the certificate
/// may expire, be revoked, or lose its authority. Verdicts are cached until a
/// file or a date changes them. Thread-safe.
class ClientCertificates {
 public:
  /// The paths of PEM files.
  struct Files {
    std::string authorities;
    /// Revocation lists; "" = nothing is revoked. Otherwise each authority of a
    /// certificate needs a list that has not expired.
    std::string revoked;
  };

  /// The logger must outlive this object.
  ClientCertificates(Files files, spdlog::logger& log)
      : files_(std::move(files)), log_(log) {}

  /// Replaces the authorities and the revocation lists. Takes the contents of
  /// the files. If one of them is not valid, returns the error and keeps the
  /// previous ones. REQUIRES: the first Load() returns OK before Check() is
  /// called.
  Status Load(const std::string& authorities, const std::string& revoked);

  /// Returns OK, or UNAUTHENTICATED with the reason CERTIFICATE_NOT_VALID. The
  /// `certificate` and the `chain` that came with it are PEM texts; a resumed
  /// session has no chain.
  Status Check(std::string_view certificate, std::string_view chain) const;

 private:
  using Store = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
  struct Verdict {
    Status status;
    std::time_t until = 0;
  };

  Verdict Verify(std::string_view certificate, std::string_view chain) const
      TOPK_REQUIRES(mutex_);
  void Remember(STACK_OF(X509) * verified) const TOPK_REQUIRES(mutex_);

  const Files files_;
  spdlog::logger& log_;
  mutable Mutex mutex_;
  Store store_ TOPK_GUARDED_BY(mutex_);
  std::time_t lists_until_ TOPK_GUARDED_BY(mutex_) = 0;
  mutable std::map<TokenHash, Verdict> verdicts_ TOPK_GUARDED_BY(mutex_);
  // Certificates between a client's and its authority, for resumed sessions.
  mutable std::vector<Certificate> intermediates_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
