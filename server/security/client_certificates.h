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

#include "core/common/mutex.h"
#include "core/common/certificates.h"
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

  /// Returns OK, or UNAUTHENTICATED with reason CERTIFICATE_NOT_VALID.
  /// `certificate` and `chain`, the certificates sent with it, are in PEM
  /// format. `chain` is empty for a resumed session.
  Status Check(std::string_view certificate, std::string_view chain) const;

 private:
  // The contents of the files.
  struct Trust {
    std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store;
    std::time_t lists_until;
  };
  struct Verdict {
    Status status;
    std::time_t until = 0;
    std::string chain;  // kept for resumed sessions, which send no chain
  };

  Verdict Verify(const Trust& trust, std::string_view certificate,
                 std::string_view chain) const;

  const Files files_;
  spdlog::logger& log_;
  mutable Mutex mutex_;
  std::shared_ptr<const Trust> trust_ TOPK_GUARDED_BY(mutex_);
  // By certificate, also if they must be verified again.
  mutable std::map<std::string, Verdict, std::less<>> verdicts_
      TOPK_GUARDED_BY(mutex_);
  // The size of the certificates and chains in verdicts_.
  mutable size_t bytes_ TOPK_GUARDED_BY(mutex_) = 0;
};

}  // namespace topk
