// Reads and checks certificates and keys in PEM files, and explains errors,
// because gRPC does not explain them.
#pragma once

#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "core/base/free_with.h"
#include "core/common/small_file.h"
#include "topk/status.h"

namespace topk {

using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeWith<X509_CRL_free>>;

/// A PEM file and its contents.
struct PemFile {
  NamedFile file;
  std::string text;
};

/// Read all certificates or all revocation lists in a file. Return
/// INVALID_ARGUMENT with reason TLS_FILE, naming the flag and the file, if no
/// object is found or an object is damaged.
Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem);
Result<std::vector<RevocationList>> ReadRevocationLists(const PemFile& pem);

/// Properties of a certificate, for logs.
struct CertificateInfo {
  /// In RFC 2253 format, e.g. "CN=topk.example".
  std::string subject;
  /// Hexadecimal.
  std::string serial;
  std::time_t not_before = 0;
  std::time_t not_after = 0;
};

/// Checks that OpenSSL can use the certificate, its chain and its key for TLS
/// at the configured security level. Returns the properties of the first
/// certificate. Returns INVALID_ARGUMENT, naming the flag, the file and the
/// rule, if a certificate is missing, damaged or expired, or if the key is
/// missing, encrypted or belongs to another certificate. Accepts a certificate
/// that is not valid yet, because clocks may differ.
Result<CertificateInfo> CheckKeyPair(const PemFile& certificate,
                                     const PemFile& key);

/// Returns the reason of this thread's last OpenSSL error, and clears it.
std::string LastOpenSslError();

/// Converts a time. Returns 0 if the time cannot be parsed.
std::time_t ToTime(const ASN1_TIME* time);

/// Formats a time as "2026-01-31T12:00:00Z".
std::string UtcText(std::time_t time);

}  // namespace topk
