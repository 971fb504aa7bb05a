// Checks of certificates with precise errors; gRPC only reports that loading
// failed.
#pragma once

#include <ctime>
#include <string>

#include "core/base/status.h"
#include "core/security/pem.h"

namespace topk {

/// The properties of a certificate that are logged for operators.
struct CertificateInfo {
  /// In RFC 2253's form, e.g. "CN=topk.example".
  std::string subject;
  /// In hexadecimal.
  std::string serial;
  std::time_t not_before = 0;
  std::time_t not_after = 0;
};

/// Returns what the first certificate says of itself if it, those after it and
/// the key can be used for TLS by this OpenSSL and its security level.
/// INVALID_ARGUMENT, naming the flag, the file and the rule: no certificate,
/// damaged, no key, an encrypted one, one of another certificate, expired. One
/// that is not valid yet is good: clocks differ, and it will be.
Result<CertificateInfo> CheckKeyPair(const PemFile& certificate,
                                     const PemFile& key);

/// Returns OK if the file has certificates, and whole ones only.
Status CheckCaBundle(const PemFile& bundle);

/// Read the files into their texts, and check them likewise. INVALID_ARGUMENT
/// if one of a pair is not named.
Status ReadKeyPair(PemFile& certificate, PemFile& key);
Status ReadCaBundle(PemFile& bundle);

/// Returns a time as "2026-01-31T12:00:00Z".
std::string UtcText(std::time_t time);

}  // namespace topk
