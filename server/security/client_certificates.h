// The certificates of clients, checked at each call.
#pragma once

#include <spdlog/logger.h>

#include <ctime>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/security/bearer_token.h"
#include "core/security/pem.h"

namespace topk {

/// Whether a client's certificate is good at this moment. TLS asks that once,
/// when a connection or the session that it resumes begins; afterwards a
/// certificate may expire or be revoked, or its authority be trusted no more.
/// Results are kept until one of the files or a date changes them.
/// Thread-safe.
class ClientCertificates {
 public:
  /// PEM files.
  struct Files {
    /// The authorities.
    std::string authorities;
    /// Their revocation lists; "" = nothing is revoked. Otherwise each
    /// authority of a certificate needs a list that is up to date.
    std::string revoked;
  };

  /// The logger outlives it.
  ClientCertificates(Files files, spdlog::logger& log)
      : files_(std::move(files)), log_(log) {}

  /// Replaces the authorities and the revocation lists with the contents of
  /// their files. If one of them is not valid, returns the error and keeps the
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

  // The mutex is held.
  Verdict Verify(std::string_view certificate, std::string_view chain) const;
  void Remember(STACK_OF(X509) * verified) const;

  const Files files_;
  spdlog::logger& log_;
  mutable std::shared_mutex mutex_;
  Store store_;
  std::time_t lists_until_ = 0;
  mutable std::map<TokenHash, Verdict> verdicts_;
  // Those between a certificate and its authority, for sessions without chain.
  mutable std::vector<Certificate> intermediates_;
};

}  // namespace topk
