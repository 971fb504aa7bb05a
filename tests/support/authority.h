// Creates certificates for tests at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace topk::testing {

/// A certificate and its key, in PEM format.
struct Identity {
  std::string certificate;
  std::string key;
};

/// The contents of a certificate to issue.
struct CertificateSpec {
  std::string common_name = "test";
  /// Subject alternative names in OpenSSL's configuration format, e.g.
  /// "DNS:a,IP:127.0.0.1". "" = none.
  std::string names = "DNS:localhost,IP:127.0.0.1";
  long serial = 1;
  /// The validity period, in seconds from now.
  long valid_from = -60;
  long valid_to = 3600;
};

/// A certificate authority. Its certificate is valid for an hour.
class Authority {
 public:
  Authority();
  ~Authority();

  /// The authority's own certificate.
  const std::string& certificate() const;

  Identity Issue(const CertificateSpec& spec = {}) const;

  /// Returns an intermediate authority. This authority signs its certificate.
  std::unique_ptr<Authority> Delegate() const;

  /// Returns a revocation list in PEM format with these serial numbers. The
  /// list expires `valid_to` seconds from now.
  std::string Revoke(const std::vector<long>& serials,
                     long valid_to = 3600) const;

 private:
  struct Impl;
  explicit Authority(const Impl* parent);
  std::unique_ptr<Impl> impl_;
};

std::string EncryptedKey();

/// Writes a file in place, without renaming.
void WriteText(const std::string& path, const std::string& text);

}  // namespace topk::testing
