// Certificates for tests, made when they run.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace topk::testing {

/// A certificate and its key, in PEM form.
struct Identity {
  std::string certificate;
  std::string key;
};

/// The content of a certificate to issue.
struct Wanted {
  std::string common_name = "test";
  /// As OpenSSL's configuration has them, e.g. "DNS:a,IP:127.0.0.1"; "" = none.
  std::string names = "DNS:localhost,IP:127.0.0.1";
  long serial = 1;
  /// Seconds from now.
  long valid_from = -60;
  long valid_to = 3600;
};

/// Signs certificates; its own is valid for an hour.
class Authority {
 public:
  Authority();
  ~Authority();

  /// Its own certificate.
  const std::string& certificate() const;

  Identity Issue(const Wanted& wanted = {}) const;

  /// An authority whose certificate this one has signed.
  std::unique_ptr<Authority> Delegate() const;

  /// A list of certificates that are revoked, by serial number, in PEM form. It
  /// is out of date `valid_to` seconds from now.
  std::string Revoke(const std::vector<long>& serials,
                     long valid_to = 3600) const;

 private:
  struct Impl;
  explicit Authority(const Impl* parent);
  std::unique_ptr<Impl> impl_;
};

/// Returns a key in PEM form that asks for a passphrase.
std::string EncryptedKey();

/// Returns the serial number of a certificate in PEM form.
long SerialOf(const std::string& certificate);

/// Writes a file, in place.
void WriteText(const std::string& path, const std::string& text);

}  // namespace topk::testing
