// Checks certificates and explains errors, because gRPC does not explain them.
#pragma once

#include <ctime>
#include <string>

#include "core/common/pem.h"
#include "topk/status.h"

namespace topk {

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

/// Read the files into PemFile::text, and check them with CheckKeyPair() or
/// ReadCertificates(). Return INVALID_ARGUMENT if only one of a pair is given.
Status ReadKeyPair(PemFile& certificate, PemFile& key);
Status ReadCaBundle(PemFile& bundle);

/// Formats a time as "2026-01-31T12:00:00Z".
std::string UtcText(std::time_t time);

}  // namespace topk
