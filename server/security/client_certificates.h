// The certificates of clients, checked at each call.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/security/bearer_token.h"
#include "core/security/pem.h"
#include "server/security/watched_files.h"

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

  /// Loads the files, or returns what is wrong with one of them; loads them
  /// again when they change, and then keeps the last good ones. The logger
  /// outlives it.
  static Result<std::unique_ptr<ClientCertificates>> Start(
      const Files& files, spdlog::logger& log,
      std::chrono::milliseconds interval = std::chrono::seconds(1));

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

  explicit ClientCertificates(Files files) : files_(std::move(files)) {}
  Status Load(const std::vector<std::string>& contents, spdlog::logger& log);
  // The mutex is held.
  Verdict Verify(std::string_view certificate, std::string_view chain) const;
  void Remember(STACK_OF(X509) * verified) const;

  const Files files_;
  mutable std::shared_mutex mutex_;
  Store store_;
  std::time_t lists_until_ = 0;
  mutable std::map<TokenHash, Verdict> verdicts_;
  // Those between a certificate and its authority, for sessions without chain.
  mutable std::vector<Certificate> intermediates_;
  std::unique_ptr<WatchedFiles> watched_;
};

}  // namespace topk
